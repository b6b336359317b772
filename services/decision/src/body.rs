//! From a model's answer to the text that validation judges.

use chassis::registry::Prices;
use protocol::{Digest, JsonLimits, ModelAnswer, ModelEvidence};

use crate::price::priced;
use crate::{ModelReply, Said};

/// The longest text kept of a provider's own names, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// The answer as it is journalled and published. A refusal, an empty and a cut-off answer become a text that validation
/// recognises and refuses, so that they are repaired like any other invalid decision.
pub(crate) fn proposed(reply: ModelReply, prices: Option<&Prices>, context_digest: Digest) -> ModelAnswer {
    let body = match reply.said {
        Said::Decision(text) => not_much_longer_than_any_decision(text),
        Said::Refused => no_decision("refused"),
        Said::Empty => no_decision("empty"),
        Said::CutOff => no_decision("cut_off"),
    };
    let name = |text: String| text[..text.floor_char_boundary(MAX_NAME_BYTES)].to_owned();
    let evidence = ModelEvidence {
        response_id: name(reply.response_id),
        model: name(reply.model),
        usage: priced(reply.usage, prices),
        context_digest,
    };
    ModelAnswer::Proposed { body, evidence }
}

fn no_decision(why: &str) -> String {
    format!("{{\"no_decision\":\"{why}\"}}")
}

/// What is longer than any decision may be is cut just past that limit: validation still finds it too large, and the
/// record that carries it does not grow without bound.
fn not_much_longer_than_any_decision(mut text: String) -> String {
    const SLACK: usize = 16;
    let most = JsonLimits::default().bytes + SLACK;
    text.truncate(text.floor_char_boundary(most));
    text
}
