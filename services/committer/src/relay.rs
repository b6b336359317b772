//! Between outbox and bus: how a commit's messages are stored, and how stored ones become records again.

use std::sync::Arc;

use chassis::{Failure, Reply};
use protocol::{Outgoing, Timestamp};
use schemas::{Codec, Outbound};
use store::{Decided, Encode, OutboxEntry, OutboxRef};

/// Stores messages as the exact records that will be published.
pub struct OutboxEncoder {
    pub codec: Arc<Codec>,
}

impl Encode for OutboxEncoder {
    fn encode(&self, outgoing: &Outgoing, _at: Timestamp) -> Result<Vec<u8>, String> {
        let record = self.codec.encode_message(outgoing).map_err(|error| error.to_string())?;
        Ok(record.to_bytes())
    }
}

/// The record of a stored entry.
pub fn outbound(entry: &OutboxEntry) -> Result<Outbound, Failure> {
    Outbound::from_bytes(&entry.bytes).map_err(|error| Failure::Retry(format!("outbox entry: {error}")))
}

/// What is told back once a reply's records are acknowledged.
pub(crate) type Acknowledged = Vec<OutboxRef>;

/// Adds to a reply what some commits must say.
pub(crate) fn say(reply: &mut Reply, decided: Decided) -> Result<(), Failure> {
    let mut refs = Vec::with_capacity(decided.outbox.len());
    for (reference, entry) in &decided.outbox {
        reply.publish.push(outbound(entry)?);
        refs.extend(reference.clone());
    }
    acknowledge_later(reply, refs);
    Ok(())
}

/// Adds references to a reply's receipt.
pub(crate) fn acknowledge_later(reply: &mut Reply, refs: Acknowledged) {
    let mut all = match reply.receipt.take().map(|receipt| receipt.downcast::<Acknowledged>()) {
        Some(Ok(known)) => *known,
        Some(Err(_)) | None => Vec::new(),
    };
    all.extend(refs);
    reply.receipt = Some(Box::new(all));
}

/// The references of a receipt.
pub(crate) fn references(receipt: Box<dyn std::any::Any + Send>) -> Acknowledged {
    receipt.downcast::<Acknowledged>().map(|refs| *refs).unwrap_or_default()
}
