//! Asking within a budget of attempts and time.

use std::pin::pin;
use std::time::Duration;

use chassis::Clock;
use futures::future::{Either, select};
use protocol::backoff_ms;

use crate::{DecisionConfig, ModelProvider, ModelReply, ModelRequest, ProviderError};

/// The longest message of a failure, in bytes.
const MAX_MESSAGE_BYTES: usize = 1_000;

/// Asks until there is an answer, a final error, or no attempt or time is left. The error is the message of a
/// `DecisionFailed`.
pub(crate) async fn ask(
    provider: &dyn ModelProvider,
    clock: &dyn Clock,
    config: &DecisionConfig,
    mut request: ModelRequest,
    budget: Duration,
) -> Result<ModelReply, String> {
    let until = clock.elapsed().saturating_add(budget);
    let overdue = |attempts: u32| format!("no decision within {} ms ({attempts} requests)", budget.as_millis());
    loop {
        let left = until.saturating_sub(clock.elapsed());
        if left.is_zero() {
            return Err(overdue(request.attempt - 1));
        }
        let answered = {
            let (asking, timeout) = (pin!(provider.decide(&request)), pin!(clock.sleep(left)));
            match select(asking, timeout).await {
                Either::Left((answered, _)) => answered,
                Either::Right(_) => return Err(overdue(request.attempt)),
            }
        };
        let (message, retry_after_ms) = match answered {
            Ok(reply) => return Ok(reply),
            Err(ProviderError::Final { message }) => return Err(bounded(&message)),
            Err(ProviderError::Transient { message, retry_after_ms }) => (message, retry_after_ms),
        };
        if request.attempt >= config.max_attempts {
            return Err(bounded(&format!("{message} (after {} requests)", request.attempt)));
        }
        let own = backoff_ms(config.base_ms, config.cap_ms, request.attempt, request.invocation_id.0.as_bytes());
        let wait = Duration::from_millis(own.max(retry_after_ms.unwrap_or(0)));
        if clock.elapsed().saturating_add(wait) >= until {
            return Err(bounded(&format!("{message} (no time is left to ask again)")));
        }
        clock.sleep(wait).await;
        request.attempt += 1;
    }
}

fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_MESSAGE_BYTES)].to_owned()
}
