//! A bounded memory of what was last known of some invocations. It knows nothing of how old or how true that is.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use crate::Address;

/// What was last known of invocations, bounded in bytes: what was put first goes first.
pub struct Recent<V> {
    kept: Mutex<Kept<V>>,
    most_bytes: usize,
}

struct Kept<V> {
    values: HashMap<Address, (u64, usize, V)>,
    /// By age.
    order: BTreeMap<u64, Address>,
    puts: u64,
    bytes: usize,
}

impl<V> Recent<V> {
    pub fn new(most_bytes: usize) -> Self {
        let kept = Kept { values: HashMap::new(), order: BTreeMap::new(), puts: 0, bytes: 0 };
        Self { kept: Mutex::new(kept), most_bytes }
    }

    /// Takes out what is known: whoever changes it must put it back, and two never change the same.
    pub fn take(&self, address: &Address) -> Option<V> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(address)
    }

    /// Keeps a value that takes about so many bytes, and answers how many older ones had to go. One that is larger than
    /// the whole bound is not kept.
    pub fn put(&self, address: Address, value: V, bytes: usize) -> u64 {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(&address);
        if bytes > self.most_bytes {
            return 1;
        }
        kept.puts += 1;
        kept.bytes += bytes;
        let age = kept.puts;
        kept.order.insert(age, address.clone());
        kept.values.insert(address, (age, bytes, value));
        let mut gone = 0;
        while kept.bytes > self.most_bytes {
            let Some((_, oldest)) = kept.order.pop_first() else { break };
            kept.remove(&oldest);
            gone += 1;
        }
        gone
    }
}

impl<V> Kept<V> {
    fn remove(&mut self, address: &Address) -> Option<V> {
        let (age, bytes, value) = self.values.remove(address)?;
        self.order.remove(&age);
        self.bytes -= bytes;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use protocol::InvocationId;

    use super::*;

    fn address(n: u128) -> Address {
        Address { tenant: "acme".into(), id: InvocationId(uuid::Uuid::from_u128(n)) }
    }

    #[test]
    fn the_oldest_goes_when_the_bytes_are_used_up() {
        let recent = Recent::new(10);
        assert_eq!(recent.put(address(1), 'a', 4), 0);
        assert_eq!(recent.put(address(2), 'b', 4), 0);
        // Put again: it is the newest now, and counts once.
        assert_eq!(recent.put(address(1), 'c', 4), 0);
        assert_eq!(recent.put(address(3), 'd', 4), 1);
        assert_eq!(recent.take(&address(2)), None);
        assert_eq!(recent.take(&address(1)), Some('c'));
        assert_eq!(recent.take(&address(1)), None, "what is taken is gone");
        assert_eq!(recent.put(address(4), 'e', 11), 1, "larger than everything: not kept");
        assert_eq!(recent.take(&address(4)), None);
        assert_eq!(recent.put(address(5), 'f', 6), 0, "what was taken takes no room");
    }
}
