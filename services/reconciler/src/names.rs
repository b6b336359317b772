//! The reconciler's own metrics, beside the chassis'.

/// Answers given, by `answer`.
pub const ANSWERS: &str = "turnwright.resolutions";
/// Owners left alone for a while after unusable replies in a row, by `owner`.
pub const BREAKER_OPENED: &str = "turnwright.owner_breaker_opened";
/// Questions answered as pending without asking, by `owner`.
pub const BREAKER_SPARED: &str = "turnwright.owner_questions_spared";
/// Questions that got no usable word from the owner, by `kind`; each is answered as pending.
pub const UNUSABLE: &str = "turnwright.owner_replies_unusable";
