//! `decisions` in, `verdicts` out.

use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use async_trait::async_trait;
use chassis::registry::Registry;
use chassis::{Failure, Handler, Metrics, Reply, names};
use protocol::{DecisionProposed, EventId, Finding, FindingCode, Judgement, Verdict};
use schemas::{Codec, DeadLetterCode, EncodeError, Inbound, Outbound, Rejection};

use crate::policy::Policy;
use crate::reload::{Current, InForce, in_force};
use crate::{Reload, SchemaProblems};

/// Findings of rejected decisions, by `code`.
const FINDINGS: &str = "turnwright.findings";

/// Judges every decision and answers with one verdict, which echoes the decision's basis (M1, stage 4).
pub struct ValidationHandler {
    codec: Arc<Codec>,
    shared: InForce,
    metrics: Metrics,
}

impl ValidationHandler {
    /// Compiles what the registry declares for validation; the error lists everything that does not compile.
    pub fn new(
        codec: Arc<Codec>,
        registry: &Registry,
        policy: Arc<Policy>,
        metrics: Metrics,
    ) -> Result<Self, SchemaProblems> {
        let current = Current::new(registry, policy)?;
        Ok(Self { codec, shared: Arc::new(RwLock::new(Arc::new(current))), metrics })
    }

    /// Keeps this handler's registry and policy up to date with a directory.
    pub fn reload(&self, directory: PathBuf) -> Reload {
        Reload::new(self.shared.clone(), directory, self.metrics.clone())
    }

    fn answer(&self, record: &Inbound) -> Result<Outbound, Refused> {
        let proposed: DecisionProposed = self.codec.decode(record).map_err(Refused::Rejected)?;
        let current = in_force(&self.shared);
        let verdict = Verdict {
            scope: proposed.turn.scope.clone(),
            judgement: current.judge.judge(&proposed),
            registry_digest: current.registry_digest,
            policy_digest: current.policy_digest,
        };
        let outbound = self.encode(&verdict)?;
        self.count(&verdict.judgement);
        Ok(outbound)
    }

    /// A verdict that no record can hold becomes a rejection that says so.
    fn encode(&self, verdict: &Verdict) -> Result<Outbound, Refused> {
        let scope = &verdict.scope;
        let name = format!("verdict/{}/{}", scope.step, scope.round);
        let event_id = EventId::answer(scope.invocation_id, scope.basis, &name);
        let error = match self.codec.encode(verdict, event_id, None) {
            Ok(outbound) => return Ok(outbound),
            Err(error) => error,
        };
        match (&error, &verdict.judgement) {
            (EncodeError::Unregistered { .. }, _) => Err(Refused::Failed(Failure::Unavailable(error.to_string()))),
            (
                EncodeError::Oversize { .. } | EncodeError::TooDeep { .. },
                Judgement::Accepted { evidence, .. } | Judgement::ApprovalRequired { evidence, .. },
            ) => {
                let message = format!("the decision does not fit the records that carry it: {error}");
                let findings = vec![Finding::new(FindingCode::TooLarge, "", message)];
                let judgement = Judgement::Rejected { findings, evidence: evidence.clone() };
                self.encode(&Verdict { judgement, ..verdict.clone() })
            }
            _ => Err(Refused::Rejected(Rejection::new(DeadLetterCode::Oversize, "", error.to_string()))),
        }
    }

    fn count(&self, judgement: &Judgement) {
        let kind = match judgement {
            Judgement::Accepted { .. } => "accepted",
            Judgement::ApprovalRequired { .. } => "approval_required",
            Judgement::Rejected { findings, .. } => {
                for finding in findings {
                    self.metrics.count(FINDINGS, &[("code", &code_name(finding.code))]);
                }
                "rejected"
            }
            Judgement::DecisionFailed { .. } => "decision_failed",
        };
        self.metrics.count(names::APPLIED, &[("verdict", kind)]);
    }
}

enum Refused {
    Rejected(Rejection),
    Failed(Failure),
}

/// The code as the wire and the model see it.
fn code_name(code: FindingCode) -> String {
    match serde_json::to_value(code) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(_) | Err(_) => format!("{code:?}"),
    }
}

#[async_trait]
impl Handler for ValidationHandler {
    fn order_key(&self, record: &Inbound) -> Vec<u8> {
        record.key.clone().unwrap_or_default()
    }

    async fn handle(&self, batch: &[Inbound]) -> Result<Reply, Failure> {
        self.codec.learn(batch).await.map_err(|error| Failure::Unavailable(error.to_string()))?;
        let mut reply = Reply::default();
        for (i, record) in batch.iter().enumerate() {
            match self.answer(record) {
                Ok(outbound) => reply.publish.push(outbound),
                Err(Refused::Rejected(rejection)) => reply.rejected.push((i, rejection)),
                Err(Refused::Failed(failure)) => return Err(failure),
            }
        }
        Ok(reply)
    }
}
