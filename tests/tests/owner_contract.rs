//! The owner contract: `schemas/owner.yaml` says what the code does.

#[path = "owner_contract/spec.rs"]
mod spec;
