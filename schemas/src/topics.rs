//! The topics: the one place where their names stand.

/// What a topic carries. Several Kafka topics may carry `Invocations` or `Controls` (ingress); the others have one each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    Invocations,
    Controls,
    Turns,
    Decisions,
    Verdicts,
    Dispatches,
    Results,
    OutcomeUnknown,
    Resolutions,
    Terminals,
    Events,
    DeadLetters,
}

impl Topic {
    pub const ALL: [Topic; 12] = [
        Topic::Invocations,
        Topic::Controls,
        Topic::Turns,
        Topic::Decisions,
        Topic::Verdicts,
        Topic::Dispatches,
        Topic::Results,
        Topic::OutcomeUnknown,
        Topic::Resolutions,
        Topic::Terminals,
        Topic::Events,
        Topic::DeadLetters,
    ];

    /// The name without prefix and version.
    pub fn short_name(self) -> &'static str {
        match self {
            Topic::Invocations => "invocations",
            Topic::Controls => "controls",
            Topic::Turns => "turns",
            Topic::Decisions => "decisions",
            Topic::Verdicts => "verdicts",
            Topic::Dispatches => "dispatches",
            Topic::Results => "results",
            Topic::OutcomeUnknown => "outcome-unknown",
            Topic::Resolutions => "resolutions",
            Topic::Terminals => "terminals",
            Topic::Events => "events",
            Topic::DeadLetters => "dead-letters",
        }
    }

    /// The Kafka topic: `<prefix>.<topic>.v1`.
    pub fn name(self, prefix: &str) -> String {
        format!("{prefix}.{}.v1", self.short_name())
    }

    /// The record that the topic carries, as its schema names it.
    pub fn record_name(self) -> &'static str {
        match self {
            Topic::Invocations => "InvocationRequested",
            Topic::Controls => "ControlRequested",
            Topic::Turns => "TurnReady",
            Topic::Decisions => "DecisionProposed",
            Topic::Verdicts => "Verdict",
            Topic::Dispatches => "ToolCallDispatched",
            Topic::Results => "ToolCallSettled",
            Topic::OutcomeUnknown => "EffectQueried",
            Topic::Resolutions => "EffectAnswered",
            Topic::Terminals => "RunEnded",
            Topic::Events => "EventsCommitted",
            Topic::DeadLetters => "DeadLettered",
        }
    }

    /// The Avro schema of that record, as it stands in `avro/`.
    pub fn schema_text(self) -> &'static str {
        match self {
            Topic::Invocations => include_str!("../avro/invocations.avsc"),
            Topic::Controls => include_str!("../avro/controls.avsc"),
            Topic::Turns => include_str!("../avro/turns.avsc"),
            Topic::Decisions => include_str!("../avro/decisions.avsc"),
            Topic::Verdicts => include_str!("../avro/verdicts.avsc"),
            Topic::Dispatches => include_str!("../avro/dispatches.avsc"),
            Topic::Results => include_str!("../avro/results.avsc"),
            Topic::OutcomeUnknown => include_str!("../avro/outcome-unknown.avsc"),
            Topic::Resolutions => include_str!("../avro/resolutions.avsc"),
            Topic::Terminals => include_str!("../avro/terminals.avsc"),
            Topic::Events => include_str!("../avro/events.avsc"),
            Topic::DeadLetters => include_str!("../avro/dead-letters.avsc"),
        }
    }

    /// Whether people and other programs write it, so that JSON is accepted beside Avro.
    pub fn is_ingress(self) -> bool {
        matches!(self, Topic::Invocations | Topic::Controls)
    }

    /// Whether callers read it, so that `wire.public` decides its format.
    pub fn is_public(self) -> bool {
        matches!(self, Topic::Terminals | Topic::Events | Topic::DeadLetters)
    }
}

/// The default topic prefix.
pub const DEFAULT_PREFIX: &str = "turnwright";
