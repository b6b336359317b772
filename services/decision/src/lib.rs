//! Asks the model once per turn, over committed context, and journals the answer. It never writes an invocation, and what
//! it publishes is untrusted: validation judges it.

mod ask;
mod body;
mod committed;
mod config;
mod context;
mod handler;
mod price;
mod provider;
mod scripted;

pub use config::DecisionConfig;
pub use context::{Context, OfferedTool, PastOutcome, PastResult, PastTurn};
pub use handler::{DecisionHandler, reasons};
pub use provider::{ModelProvider, ModelReply, ModelRequest, ProviderError, Said};
pub use scripted::{ScenarioProblems, ScriptedProvider};

#[cfg(test)]
mod tests;
