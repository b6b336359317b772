//! Where an invocation lives, and how its address is written inside a store.

use protocol::{Digest, InvocationId};

use crate::{Address, Shard};

/// Length of an Invocation ID as text.
const ID_LEN: usize = 36;

/// The shard of an address among `shards` (taken as at least 1). Stable for ever: changing it loses every stored
/// invocation.
pub fn shard_of(address: &Address, shards: u16) -> Shard {
    let digest = Digest::of("shard", &[address.tenant.as_str().as_bytes(), address.id.0.as_bytes()]);
    let (head, _) = digest.0.split_first_chunk::<8>().expect("a digest has 32 bytes");
    let shard = u64::from_be_bytes(*head) % u64::from(shards.max(1));
    Shard(u16::try_from(shard).expect("a remainder of a u16 fits a u16"))
}

/// An address as text: the ID first, because its length is fixed and a tenant may contain anything.
pub(crate) fn write(address: &Address) -> String {
    format!("{}/{}", address.id, address.tenant)
}

/// The inverse of [`write`].
pub(crate) fn read(text: &str) -> Option<Address> {
    let id: InvocationId = text.get(..ID_LEN)?.parse().ok()?;
    let tenant = text.get(ID_LEN..)?.strip_prefix('/')?;
    Some(Address { tenant: tenant.into(), id })
}

/// A timer's name together with its address; the tenant's length keeps tenant and name apart.
pub(crate) fn write_timer(address: &Address, name: &str) -> String {
    format!("{}/{}/{}/{name}", address.id, address.tenant.as_str().len(), address.tenant)
}

/// The inverse of [`write_timer`].
pub(crate) fn read_timer(text: &str) -> Option<(Address, String)> {
    let id: InvocationId = text.get(..ID_LEN)?.parse().ok()?;
    let (len, rest) = text.get(ID_LEN..)?.strip_prefix('/')?.split_once('/')?;
    let len: usize = len.parse().ok()?;
    let tenant = rest.get(..len)?.into();
    let name = rest.get(len..)?.strip_prefix('/')?.to_owned();
    Some((Address { tenant, id }, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(tenant: &str) -> Address {
        Address { tenant: tenant.into(), id: InvocationId(uuid::Uuid::from_u128(7)) }
    }

    #[test]
    fn addresses_and_timers_read_back_whatever_the_tenant_contains() {
        for tenant in ["", "acme", "a/b", "{x}:1/", "ü\0/3/"] {
            for name in ["", "deadline", "call/1/2", "\0"] {
                let address = address(tenant);
                assert_eq!(read(&write(&address)), Some(address.clone()));
                assert_eq!(read_timer(&write_timer(&address, name)), Some((address, name.to_owned())));
            }
        }
    }

    #[test]
    fn the_shard_of_an_address_never_changes() {
        assert_eq!(shard_of(&address("acme"), 1), Shard(0));
        assert_eq!(shard_of(&address("acme"), 16), Shard(8));
        assert_eq!(shard_of(&address("globex"), 16), Shard(9));
    }
}
