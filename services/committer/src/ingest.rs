//! From a record to an input: which topic it came on says what it is and who may have sent it (S4).

use std::collections::BTreeMap;
use std::sync::Arc;

use chassis::registry::{Carries, ControlKind, Ingress, Registry};
use protocol::{Control, EffectAnswered, Input, InvocationId, Requested, Tenant, Timestamp, ToolCallSettled, Verdict};
use schemas::{Codec, DeadLetterCode, Inbound, Rejection, Topic};
use store::Address;

/// Turns records into inputs.
pub(crate) struct Ingest {
    codec: Arc<Codec>,
    registry: Arc<Registry>,
    sources: BTreeMap<String, Source>,
    horizon_ms: u64,
}

enum Source {
    Ingress(Ingress),
    Verdicts,
    Results,
    Resolutions,
}

impl Ingest {
    pub(crate) fn new(codec: Arc<Codec>, registry: Arc<Registry>, horizon_ms: u64) -> Self {
        let internal = [
            (Topic::Verdicts, Source::Verdicts),
            (Topic::Results, Source::Results),
            (Topic::Resolutions, Source::Resolutions),
        ];
        let mut sources: BTreeMap<_, _> =
            internal.into_iter().map(|(topic, source)| (codec.topic_name(topic), source)).collect();
        for ingress in &registry.ingress.ingress {
            let name = ingress.topic.clone().unwrap_or_else(|| match ingress.carries {
                Carries::Invocations => codec.topic_name(Topic::Invocations),
                Carries::Controls => codec.topic_name(Topic::Controls),
            });
            sources.insert(name, Source::Ingress(ingress.clone()));
        }
        Self { codec, registry, sources, horizon_ms }
    }

    /// The topics to consume.
    pub(crate) fn topics(&self) -> Vec<String> {
        self.sources.keys().cloned().collect()
    }

    pub(crate) fn input(&self, record: &Inbound) -> Result<(Address, Input), Rejection> {
        let internal = |tenant: &Tenant, id: InvocationId| Address { tenant: tenant.clone(), id };
        match self.sources.get(&record.topic) {
            Some(Source::Ingress(ingress)) => match ingress.carries {
                Carries::Invocations => self.request(ingress, record),
                Carries::Controls => self.control(ingress, record),
            },
            Some(Source::Verdicts) => {
                let verdict: Verdict = self.codec.decode(record)?;
                let address = internal(&verdict.scope.tenant, verdict.scope.invocation_id);
                Ok((address, Input::Verdict(Box::new(verdict))))
            }
            Some(Source::Results) => {
                let settled: ToolCallSettled = self.codec.decode(record)?;
                let address = internal(&settled.scope.tenant, settled.scope.invocation_id);
                Ok((address, Input::CallSettled(Box::new(settled))))
            }
            Some(Source::Resolutions) => {
                let answered: EffectAnswered = self.codec.decode(record)?;
                let address = internal(&answered.scope.tenant, answered.scope.invocation_id);
                Ok((address, Input::EffectAnswered(Box::new(answered))))
            }
            None => {
                let message = format!("`{}` is not a topic of the committer", record.topic);
                Err(Rejection::new(DeadLetterCode::Unsupported, "", message))
            }
        }
    }

    fn request(&self, ingress: &Ingress, record: &Inbound) -> Result<(Address, Input), Rejection> {
        let request = self.codec.decode_request(record)?;
        prove(ingress, &request.tenant, record)?;
        let address = Address { tenant: request.tenant.clone(), id: request.invocation_id };
        let profile = self.registry.agents.profile(&request.agent, &request.tenant);
        let digest = request.digest();
        let requested_at = request.requested_at.unwrap_or(Timestamp(record.timestamp_ms));
        let horizon_ms = self.horizon_ms;
        let requested = Requested { request, digest, requested_at, profile, horizon_ms };
        Ok((address, Input::Requested(Box::new(requested))))
    }

    fn control(&self, ingress: &Ingress, record: &Inbound) -> Result<(Address, Input), Rejection> {
        let control = self.codec.decode_control(record)?;
        prove(ingress, &control.tenant, record)?;
        let (kind, actor) = match &control.control {
            Control::Cancel { actor, .. } => (ControlKind::Cancel, actor),
            Control::Approve { actor, .. } => (ControlKind::Approve, actor),
            Control::Reject { actor, .. } => (ControlKind::Reject, actor),
            Control::Clarify { actor, .. } => (ControlKind::Clarify, actor),
            Control::ResolveEffect { actor, .. } => (ControlKind::ResolveEffect, actor),
        };
        if !ingress.may_carry(kind) {
            let message = format!("`{}` may not carry this kind of control; see ingress.yaml", record.topic);
            return Err(Rejection::new(DeadLetterCode::TenantMismatch, "kind", message));
        }
        self.registry.ingress.prove(ingress, kind, (&control.tenant, actor), record)?;
        let address = Address { tenant: control.tenant, id: control.invocation_id };
        Ok((address, Input::Control(control.control)))
    }
}

fn prove(ingress: &Ingress, tenant: &Tenant, record: &Inbound) -> Result<(), Rejection> {
    if ingress.proves(tenant) {
        return Ok(());
    }
    let message =
        format!("this tenant is not bound to `{}`; produce to its own topic, or bind it in ingress.yaml", record.topic);
    Err(Rejection::new(DeadLetterCode::TenantMismatch, "tenant", message))
}
