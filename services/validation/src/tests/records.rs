use std::sync::Arc;

use chassis::{Handler, Metrics, names};
use protocol::{DecisionProposed, EventId, Judgement, Verdict};
use schemas::{Codec, CodecConfig, Inbound, Topic};
use serde_json::json;

use super::world::*;
use crate::ValidationHandler;

pub fn record(codec: &Codec, decision: &DecisionProposed) -> Inbound {
    let scope = &decision.turn.scope;
    let id = EventId::answer(scope.invocation_id, scope.basis, "decision");
    codec.arrival(codec.encode(decision, id, None).unwrap())
}

fn handler(codec: &Arc<Codec>, metrics: &Metrics) -> ValidationHandler {
    ValidationHandler::new(codec.clone(), &standard(), policy(PERMIT), metrics.clone()).unwrap()
}

#[test]
fn each_decision_gets_one_verdict_that_echoes_its_basis_and_repeats_exactly() {
    let codec = Arc::new(Codec::new(CodecConfig::default()));
    let metrics = Metrics::silent("validation");
    let handler = handler(&codec, &metrics);
    let good = record(&codec, &proposed(turn(), batch(&[call("c1", "lookup", json!({"q": "a"}))])));
    let bad = record(&codec, &proposed(turn(), "nonsense"));
    let reply = futures::executor::block_on(handler.handle(&[good.clone(), bad])).unwrap();
    let again = futures::executor::block_on(handler.handle(&[good])).unwrap();
    assert_eq!(reply.publish.len(), 2);
    assert_eq!(reply.publish[0], again.publish[0]);
    assert!(reply.publish.iter().all(|record| record.topic == Topic::Verdicts));
    let verdicts: Vec<Verdict> =
        reply.publish.into_iter().map(|record| codec.decode(&codec.arrival(record)).unwrap()).collect();
    assert_eq!(verdicts[0].scope, turn().scope);
    assert_eq!(verdicts[0].registry_digest, standard().digest);
    assert_eq!(verdicts[0].policy_digest, policy(PERMIT).digest);
    assert!(matches!(verdicts[0].judgement, Judgement::Accepted { .. }));
    assert!(matches!(verdicts[1].judgement, Judgement::Rejected { .. }));
    assert_eq!(metrics.total(names::APPLIED), 3);
}

#[test]
fn a_record_that_is_no_decision_is_rejected_alone() {
    let codec = Arc::new(Codec::new(CodecConfig::default()));
    let handler = handler(&codec, &Metrics::silent("validation"));
    let good = record(&codec, &proposed(turn(), answer(json!("done"))));
    let mut bad = good.clone();
    bad.value = Some(b"junk".to_vec());
    let reply = futures::executor::block_on(handler.handle(&[bad, good])).unwrap();
    assert_eq!((reply.publish.len(), reply.rejected.len(), reply.rejected[0].0), (1, 1, 0));
}
