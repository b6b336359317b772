//! The reconciler's own metrics, beside the chassis'.

/// Answers given, by `answer`.
pub const ANSWERS: &str = "turnwright.resolutions";
/// Questions that got no usable word from the owner, by `kind`; each is answered as pending.
pub const UNUSABLE: &str = "turnwright.owner_replies_unusable";
