//! The owner contract: `schemas/owner.yaml` says what the code does, and `turnwright conformance` tells owners that keep it
//! from owners that do not.

#[path = "owner_contract/kit.rs"]
mod kit;
#[path = "owner_contract/spec.rs"]
mod spec;
