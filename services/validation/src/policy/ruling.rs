//! The judgement of one call: for each thing it touches, what the policies say and which of them.

use cedar_policy::{Authorizer, Decision, Entities, PolicySet, Request, Response};
use protocol::{TemplateError, ToolContract};
use serde_json::Value;

use super::request::{self, Target};
use super::{Access, Approval, Caller, Policy};

/// What the policies say of one call. Every thing it touches must be permitted; one gate gates the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// In the order of the tool's declaration, reads first; what a `*` takes in stands behind it.
    pub touched: Vec<Touched>,
}

/// What the policies say of one thing that a call touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    pub access: Access,
    /// A rendered resource, such as `order:A-100`; absent for a tool that declares none.
    pub object: Option<String>,
    pub outcome: Outcome,
}

/// Policies are named by `@id`, or by file and number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Allowed {
        by: Vec<String>,
    },
    Gated {
        by: Vec<String>,
        gates: Vec<Gate>,
    },
    /// `by` is empty where no policy permits it.
    Denied {
        by: Vec<String>,
        broken: Vec<Broken>,
    },
}

/// A gate that applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    pub policy: String,
    pub approval: Approval,
}

/// A `forbid` that could not be evaluated. Cedar skips such a policy; here it denies, for what it would have forbidden is
/// not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub policy: String,
    /// For the operator; it may quote the policy.
    pub why: String,
}

/// A ruling in one word, the strictest of its outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    Allow,
    Gate,
    Deny,
}

impl Permission {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Gate => "gate",
            Self::Deny => "deny",
        }
    }
}

impl Outcome {
    pub fn permission(&self) -> Permission {
        match self {
            Self::Allowed { .. } => Permission::Allow,
            Self::Gated { .. } => Permission::Gate,
            Self::Denied { .. } => Permission::Deny,
        }
    }
}

impl Ruling {
    pub fn permission(&self) -> Permission {
        self.touched.iter().map(|touched| touched.outcome.permission()).max().unwrap_or(Permission::Deny)
    }
}

impl Policy {
    /// Judges one call. The error is a resource template that these arguments cannot fill.
    pub fn rule(&self, caller: &Caller<'_>, tool: &ToolContract, arguments: &Value) -> Result<Ruling, TemplateError> {
        let mut targets: Vec<Target> = Vec::new();
        for target in Target::of(tool, arguments)? {
            let within = target.object.iter().flat_map(|object| self.entities.within(object));
            let within = within.map(|object| Target { access: target.access, object: Some(object.clone()) });
            for touched in std::iter::once(target.clone()).chain(within) {
                if !targets.contains(&touched) {
                    targets.push(touched);
                }
            }
        }
        let entities = self.entities.of(caller, tool, &targets);
        let touched = targets.into_iter().map(|target| {
            let outcome = match &entities {
                Ok(entities) => self.outcome(caller, tool, arguments, &target, entities),
                Err(why) => Err(why.clone()),
            };
            let unusable = |why| Outcome::Denied {
                by: Vec::new(),
                broken: vec![Broken { policy: super::files::ENTITIES.to_owned(), why }],
            };
            Touched { access: target.access, object: target.object, outcome: outcome.unwrap_or_else(unusable) }
        });
        Ok(Ruling { touched: touched.collect() })
    }

    fn outcome(
        &self,
        caller: &Caller<'_>,
        tool: &ToolContract,
        arguments: &Value,
        target: &Target,
        entities: &Entities,
    ) -> Result<Outcome, String> {
        let context = request::context(caller, tool, arguments, target.access)?;
        let action = request::uid("Action", tool.tool.as_str());
        let request =
            Request::new(caller.uid(), action, target.uid(tool), context, None).map_err(|error| error.to_string())?;
        let authorizer = Authorizer::new();
        let ask = |policies: &PolicySet| authorizer.is_authorized(&request, policies, entities);
        let (rules, gates) = (ask(&self.rules), ask(&self.gates));
        let mut broken = broken(&rules, &self.rules);
        let by = names(&rules);
        if rules.decision() == Decision::Deny || !broken.is_empty() {
            // A permit that grants is no reason of a denial.
            let by = if rules.decision() == Decision::Deny { by } else { Vec::new() };
            return Ok(Outcome::Denied { by, broken });
        }
        broken = self::broken(&gates, &self.gates);
        if !broken.is_empty() {
            return Ok(Outcome::Denied { by: Vec::new(), broken });
        }
        // Gates are forbids, and no permit stands among them: the reasons are those that apply.
        let gates: Vec<Gate> = names(&gates)
            .into_iter()
            .filter_map(|policy| self.approvals.get(&policy).cloned().map(|approval| Gate { policy, approval }))
            .collect();
        Ok(if gates.is_empty() { Outcome::Allowed { by } } else { Outcome::Gated { by, gates } })
    }
}

/// The policies that decided, sorted.
fn names(response: &Response) -> Vec<String> {
    let mut names: Vec<String> = response.diagnostics().reason().map(ToString::to_string).collect();
    names.sort();
    names
}

/// The forbids that could not be evaluated. A permit that could not grants nothing, which is enough.
fn broken(response: &Response, policies: &PolicySet) -> Vec<Broken> {
    let mut broken: Vec<Broken> = response
        .diagnostics()
        .errors()
        .filter_map(|error| match error {
            cedar_policy::AuthorizationError::PolicyEvaluationError(error) => {
                let forbids =
                    policies.policy(error.policy_id()).is_none_or(|one| one.effect() == cedar_policy::Effect::Forbid);
                let why = error.inner().to_string();
                forbids.then(|| Broken { policy: error.policy_id().to_string(), why })
            }
        })
        .collect();
    broken.sort_by(|a, b| a.policy.cmp(&b.policy));
    broken
}
