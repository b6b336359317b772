//! How long and how often a model is asked, and how much it is shown.

/// Settings of the decision service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionConfig {
    /// Requests for one turn at most, the first one included.
    pub max_attempts: u32,
    /// The wait before the first repetition; it doubles from there, with jitter.
    pub base_ms: u64,
    /// The longest wait between two requests.
    pub cap_ms: u64,
    /// All requests for one turn and the waits between them. The run's deadline and its agent's `decide_timeout_ms`
    /// bound it further.
    pub budget_ms: u64,
    /// How large a context may be, as JSON.
    pub context_bytes: usize,
    /// How many bytes of proven histories are remembered between two turns of a run; what is forgotten is read again.
    pub history_bytes: usize,
}

impl Default for DecisionConfig {
    fn default() -> Self {
        Self {
            max_attempts: 4,
            base_ms: 250,
            cap_ms: 8_000,
            budget_ms: 45_000,
            context_bytes: 256 * 1024,
            history_bytes: 16 << 20,
        }
    }
}
