//! Schemas that records were once written with. `history/` keeps a sample of each; none is ever removed, since a record
//! written with it may still stand in a topic.

use crate::Topic;

/// Earlier schemas, by topic. The current one stands in `avro/`. Add a line here when a released schema changes:
/// `(Topic::Turns, include_str!("../history/turns/<fingerprint>.avsc"))`.
pub(crate) const PAST: &[(Topic, &str)] = &[
    (Topic::DeadLetters, include_str!("../history/dead-letters/af584f6c93600685.avsc")),
    (Topic::OutcomeUnknown, include_str!("../history/outcome-unknown/517494cf158d60db.avsc")),
];
