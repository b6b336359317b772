//! The handler: all records queued for one invocation become one commit.

use std::sync::Arc;

use async_trait::async_trait;
use chassis::registry::Registry;
use chassis::{Failure, Handler, Metrics, Reply, names};
use protocol::{Ignored, Input};
use schemas::{Codec, DeadLetterCode, Inbound, Rejection};
use store::{Address, DecideError, Decided, Decider, Error, Refusal};

use crate::ingest::Ingest;
use crate::relay;

/// Decides on requests, controls, verdicts, results and resolutions.
pub struct CommitterHandler {
    decider: Decider,
    codec: Arc<Codec>,
    ingest: Ingest,
    metrics: Metrics,
}

impl CommitterHandler {
    /// `horizon_ms`: how long requests are remembered (`retention.evidence`).
    pub fn new(
        decider: Decider,
        codec: Arc<Codec>,
        registry: Arc<Registry>,
        horizon_ms: u64,
        metrics: Metrics,
    ) -> Self {
        let ingest = Ingest::new(codec.clone(), registry, horizon_ms);
        Self { decider, codec, ingest, metrics }
    }

    /// The full names of the topics to consume.
    pub fn topics(&self) -> Vec<String> {
        self.ingest.topics()
    }

    /// Decides what one invocation's records do, and adds what must be said to the reply.
    async fn decide(&self, group: &Group, reply: &mut Reply) -> Result<(), Failure> {
        let decided = self.decider.decide(&group.address, &group.inputs).await.map_err(failure)?;
        count(&self.metrics, &decided);
        for ((index, input), outcome) in group.indexes.iter().zip(&group.inputs).zip(&decided.outcomes) {
            if let Some(rejection) = outcome.as_ref().err().and_then(|refusal| rejection(input, refusal)) {
                reply.rejected.push((*index, rejection));
            }
        }
        relay::say(reply, decided)
    }
}

/// One invocation's records of a batch: their places in it, and what they say.
struct Group {
    address: Address,
    indexes: Vec<usize>,
    inputs: Vec<Input>,
}

#[async_trait]
impl Handler for CommitterHandler {
    /// The Invocation ID: every message of an invocation has it as its key. A request that names it only in its value
    /// is decided under its own key, which is as good: the version check orders commits.
    fn order_key(&self, record: &Inbound) -> Vec<u8> {
        record.key.clone().unwrap_or_default()
    }

    async fn handle(&self, batch: &[Inbound]) -> Result<Reply, Failure> {
        self.codec.learn(batch).await.map_err(|error| Failure::Unavailable(error.to_string()))?;
        let mut reply = Reply::default();
        let mut groups: Vec<Group> = Vec::new();
        for (index, record) in batch.iter().enumerate() {
            match self.ingest.input(record) {
                Err(rejection) => reply.rejected.push((index, rejection)),
                Ok((address, input)) => match groups.iter_mut().find(|group| group.address == address) {
                    Some(group) => {
                        group.indexes.push(index);
                        group.inputs.push(input);
                    }
                    None => groups.push(Group { address, indexes: vec![index], inputs: vec![input] }),
                },
            }
        }
        for group in &groups {
            self.decide(group, &mut reply).await?;
        }
        reply.rejected.sort_by_key(|(index, _)| *index);
        Ok(reply)
    }

    fn acknowledged(&self, receipt: Box<dyn std::any::Any + Send>) {
        self.decider.store.acknowledge(relay::references(receipt));
    }
}

/// Counts every input once: applied, or ignored by reason (I17).
pub(crate) fn count(metrics: &Metrics, decided: &Decided) {
    for outcome in &decided.outcomes {
        match outcome {
            Ok(events) => {
                metrics.count(names::APPLIED, &[]);
                metrics.add("turnwright.events", events.len() as u64, &[]);
                for event in events {
                    if let protocol::Fact::EffectConflict { effect_key, .. } = &event.fact {
                        metrics.count("turnwright.effect_conflicts", &[]);
                        tracing::error!(%effect_key, "an owner contradicts the recorded outcome of an effect");
                    }
                }
            }
            Err(Refusal::Kept) => metrics.count(names::APPLIED, &[]),
            Err(Refusal::OverQuota) => metrics.count(names::IGNORED, &[("reason", "over_quota")]),
            Err(Refusal::Ignored(ignored)) => {
                metrics.count(names::IGNORED, &[("reason", ignored.as_str())]);
                if let Ignored::LostCommit(basis) = ignored {
                    metrics.count("turnwright.frozen", &[]);
                    tracing::error!(version = %basis.version, "the store lost a commit: the invocation is frozen");
                }
            }
        }
    }
    if decided.conflicts > 0 {
        metrics.add("turnwright.commit_conflicts", u64::from(decided.conflicts), &[]);
    }
}

/// What a caller's record is told when it changed nothing; everything else is only counted.
fn rejection(input: &Input, refusal: &Refusal) -> Option<Rejection> {
    let reject = |code, field: &str, message: &str| Some(Rejection::new(code, field, message));
    match (input, refusal) {
        (Input::Requested(_), Refusal::Ignored(Ignored::Conflict)) => reject(
            DeadLetterCode::RequestConflict,
            "invocation_id",
            "another request has this ID; a new task needs a new ID, and the same task the same fields",
        ),
        (Input::Requested(_), Refusal::Ignored(Ignored::ExpiredRequest)) => reject(
            DeadLetterCode::ExpiredRequest,
            "requested_at",
            "older than the horizon in which requests are remembered; send it anew under a new ID if it never ran",
        ),
        (Input::Requested(_), Refusal::Ignored(Ignored::FutureRequest)) => reject(
            DeadLetterCode::InvalidRequest,
            "requested_at",
            "more than 5 minutes in the future; check the producer's clock",
        ),
        (Input::Control(_), Refusal::Ignored(Ignored::UnknownInvocation)) => {
            reject(DeadLetterCode::UnknownInvocation, "invocation_id", "no such invocation")
        }
        (Input::Control(_), Refusal::Ignored(Ignored::NoApprovalWaiting)) => reject(
            DeadLetterCode::NothingWaits,
            "proposal_digest",
            "no proposal of this run waits: it was answered before, it has expired, or the run has ended",
        ),
        (Input::Control(_), Refusal::Ignored(Ignored::WrongProposal)) => reject(
            DeadLetterCode::WrongProposal,
            "proposal_digest",
            "another proposal waits; answer the one of the run's newest terminal event",
        ),
        (Input::Control(_), Refusal::Ignored(Ignored::ApprovalExpired)) => reject(
            DeadLetterCode::ApprovalExpired,
            "proposal_digest",
            "the proposal has expired; what the model proposes next is a new one",
        ),
        (Input::Control(_), Refusal::Ignored(Ignored::SelfApproval)) => {
            reject(DeadLetterCode::SelfApproval, "actor", "policy wants another approver than the run's own actor")
        }
        (Input::Control(_), Refusal::Ignored(Ignored::NoQuestionWaiting)) => reject(
            DeadLetterCode::NothingWaits,
            "answer",
            "no question of this run waits: it was answered before, or the run has ended",
        ),
        (Input::Control(_), Refusal::Ignored(Ignored::WrongQuestion)) => reject(
            DeadLetterCode::WrongQuestion,
            "step",
            "the question of another step waits; name the step of the run's newest terminal event",
        ),
        (Input::Control(_), Refusal::Ignored(Ignored::RepeatedAnswer)) => reject(
            DeadLetterCode::RepeatedAnswer,
            "step",
            "the same answer was given before; to give it again, name the step whose question it answers",
        ),
        (_, Refusal::OverQuota) => reject(
            DeadLetterCode::QuotaExceeded,
            "invocation_id",
            "too many cancels of this tenant wait for their requests; send the request first",
        ),
        (_, Refusal::Ignored(_) | Refusal::Kept) => None,
    }
}

/// What the chassis does about a decision that could not be made.
pub(crate) fn failure(error: DecideError) -> Failure {
    match error {
        DecideError::Store(Error::Retryable(why)) => Failure::Unavailable(why),
        DecideError::Store(error @ (Error::Refused(_) | Error::Corrupt(_))) => Failure::Retry(error.to_string()),
        DecideError::Unencodable(why) => Failure::Reject(Rejection::new(DeadLetterCode::Oversize, "", why)),
        error @ (DecideError::Contended(_) | DecideError::Bug(_)) => Failure::Retry(error.to_string()),
    }
}

/// What the chassis does about a store call that failed.
pub(crate) fn store_failure(error: Error) -> Failure {
    failure(DecideError::Store(error))
}
