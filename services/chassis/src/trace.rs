//! W3C trace context over records: extracted from what arrives, a span per batch, injected into what leaves. Without an
//! exporter the incoming context is handed on as it came.

use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use schemas::{Inbound, Outbound};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

struct Headers<'a>(&'a Inbound);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.header(key)
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT, TRACESTATE]
    }
}

#[derive(Default)]
struct Collected(Vec<(String, Vec<u8>)>);

impl Injector for Collected {
    fn set(&mut self, key: &str, value: String) {
        if !value.is_empty() {
            self.0.push((key.to_owned(), value.into_bytes()));
        }
    }
}

/// A span over a batch: child of its first record's context, linked to the others'.
pub(crate) fn batch_span(service: &str, records: &[Inbound]) -> Span {
    let Some(first) = records.first() else {
        return Span::none();
    };
    let span = tracing::info_span!(
        "handle",
        otel.kind = "consumer",
        service,
        messaging.system = "kafka",
        messaging.destination.name = first.topic,
        messaging.batch.message_count = records.len(),
    );
    if span.is_disabled() || records.iter().all(|record| record.header(TRACEPARENT).is_none()) {
        return span;
    }
    let propagator = TraceContextPropagator::new();
    let mut contexts = records.iter().map(|record| propagator.extract(&Headers(record)));
    if let Some(parent) = contexts.next() {
        // Fails only where no OpenTelemetry layer is installed; then there is nothing to set.
        let _ = span.set_parent(parent);
    }
    for other in contexts {
        span.add_link(other.span().span_context().clone());
    }
    span
}

/// Gives every record that has none the trace context of `span`, or of the batch where nothing is exported.
pub(crate) fn inject(span: &Span, batch: &[Inbound], records: &mut [Outbound]) {
    if records.iter().all(has_context) {
        return;
    }
    let mut own = Collected::default();
    TraceContextPropagator::new().inject_context(&span.context(), &mut own);
    if own.0.is_empty() {
        let Some(carrier) = batch.iter().find(|record| record.header(TRACEPARENT).is_some()) else {
            return;
        };
        for name in [TRACEPARENT, TRACESTATE] {
            own.0.extend(carrier.header(name).map(|value| (name.to_owned(), value.as_bytes().to_vec())));
        }
    }
    for record in records.iter_mut().filter(|record| !has_context(record)) {
        record.headers.extend(own.0.iter().cloned());
    }
}

fn has_context(record: &Outbound) -> bool {
    record.headers.iter().any(|(name, _)| name == TRACEPARENT)
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use protocol::EventId;
    use schemas::Topic;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn inbound() -> Inbound {
        Inbound {
            topic: "t".to_owned(),
            partition: 0,
            offset: 0,
            timestamp_ms: 0,
            key: None,
            value: None,
            headers: vec![(TRACEPARENT.to_owned(), PARENT.as_bytes().to_vec())],
        }
    }

    fn injected() -> String {
        let span = batch_span("test", &[inbound()]);
        let event_id = EventId(uuid::Uuid::nil());
        let record = Outbound { topic: Topic::Turns, key: vec![], value: vec![], headers: vec![], event_id };
        let mut records = vec![record];
        inject(&span, &[inbound()], &mut records);
        let (_, value) = records[0].headers.iter().find(|(name, _)| name == TRACEPARENT).unwrap();
        String::from_utf8(value.clone()).unwrap()
    }

    #[test]
    fn a_recorded_span_becomes_the_parent_in_the_same_trace() {
        let provider = SdkTracerProvider::builder().build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let subscriber = tracing_subscriber::registry().with(layer);
        let value = tracing::subscriber::with_default(subscriber, injected);
        assert_eq!(value[..36], PARENT[..36]);
        assert_ne!(value[36..52], PARENT[36..52]);
    }

    #[test]
    fn without_an_exporter_the_context_is_handed_on_as_it_came() {
        assert_eq!(tracing::subscriber::with_default(tracing_subscriber::registry(), injected), PARENT);
    }
}
