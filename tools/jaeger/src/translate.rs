//! Converts the spans of an OTLP request as a Jaeger collector does.
//!
//! Jaeger's model has no span kind, status or scope. Its collector writes them as tags, which the UI reads. The store
//! of `otlp-embedded` does not, so this module adds them as attributes with Jaeger's names.

use otlp_embedded::proto::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};

/// Prepares every span for the store, removes invalid ones, and returns the number of removed spans.
pub(crate) fn translate(request: &mut ExportTraceServiceRequest) -> i64 {
    let mut rejected = 0;
    for resource_spans in &mut request.resource_spans {
        name_process(resource_spans.resource.get_or_insert_default());
        for scope_spans in &mut resource_spans.scope_spans {
            scope_spans.spans.retain(|span| {
                let valid = is_valid(span);
                rejected += i64::from(!valid);
                valid
            });
            for span in &mut scope_spans.spans {
                prepare(span, scope_spans.scope.as_ref());
            }
        }
    }
    rejected
}

/// Returns `true` if the store can accept the span. Because of an invalid span, a trace may have no spans or no root,
/// and every later search would fail.
fn is_valid(span: &Span) -> bool {
    span.trace_id.len() == 16 && span.span_id.len() == 8 && span.parent_span_id != span.span_id
}

/// Adds the name of the service to `service.instance.id`, because the store uses only this id to distinguish the
/// processes of a trace. Otherwise all services without an id would be shown under one name, and so would services with
/// the same id.
fn name_process(resource: &mut Resource) {
    const INSTANCE: &str = "service.instance.id";
    let service = string(&resource.attributes, "service.name").unwrap_or_default();
    let name = match string(&resource.attributes, INSTANCE) {
        Some(instance) => format!("{service}/{instance}"),
        None => service.to_owned(),
    };
    set_unless_empty(&mut resource.attributes, INSTANCE, &name);
}

fn prepare(span: &mut Span, scope: Option<&InstrumentationScope>) {
    // The store subtracts the start from the end.
    span.end_time_unix_nano = span.end_time_unix_nano.max(span.start_time_unix_nano);

    // The store lists links before the parent, and the UI uses the first listed span of the trace as the parent.
    span.links.retain(|link| link.trace_id != span.trace_id);

    if let Some(kind) = kind_name(span.kind()) {
        set(&mut span.attributes, "span.kind", text(kind));
    }
    if let Some(scope) = scope {
        set_unless_empty(&mut span.attributes, "otel.scope.name", &scope.name);
        set_unless_empty(&mut span.attributes, "otel.scope.version", &scope.version);
    }
    if let Some(status) = span.status.clone() {
        match status.code() {
            StatusCode::Unset => (),
            StatusCode::Ok => set(&mut span.attributes, "otel.status_code", text("OK")),
            StatusCode::Error => {
                set(&mut span.attributes, "error", Value::BoolValue(true));
                set(&mut span.attributes, "otel.status_code", text("ERROR"));
            }
        }
        set_unless_empty(&mut span.attributes, "otel.status_description", &status.message);
    }
    for event in &mut span.events {
        set_unless_empty(&mut event.attributes, "event", &event.name);
    }
}

fn kind_name(kind: SpanKind) -> Option<&'static str> {
    match kind {
        SpanKind::Unspecified => None,
        SpanKind::Internal => Some("internal"),
        SpanKind::Server => Some("server"),
        SpanKind::Client => Some("client"),
        SpanKind::Producer => Some("producer"),
        SpanKind::Consumer => Some("consumer"),
    }
}

fn string<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(value) => Some(value),
        _ => None,
    }
}

fn set_unless_empty(attributes: &mut Vec<KeyValue>, key: &str, value: &str) {
    if !value.is_empty() {
        set(attributes, key, text(value));
    }
}

fn set(attributes: &mut Vec<KeyValue>, key: &str, value: Value) {
    attributes.retain(|attribute| attribute.key != key);
    attributes.push(KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) });
}

fn text(value: &str) -> Value {
    Value::StringValue(value.to_owned())
}

#[cfg(test)]
mod tests {
    use otlp_embedded::proto::trace::v1::{
        ResourceSpans, ScopeSpans, Status,
        span::{Event, Link},
    };

    use super::*;

    fn valid_span() -> Span {
        Span { trace_id: vec![1; 16], span_id: vec![2; 8], ..Span::default() }
    }

    fn translated(span: Span) -> (Vec<Span>, i64) {
        let scope = InstrumentationScope { name: "lib".to_owned(), ..InstrumentationScope::default() };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans: vec![span], ..ScopeSpans::default() }];
        let mut request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }],
        };
        let rejected = translate(&mut request);
        (request.resource_spans.remove(0).scope_spans.remove(0).spans, rejected)
    }

    fn tag(attribute: &KeyValue) -> (&str, Option<&Value>) {
        (&attribute.key, attribute.value.as_ref().and_then(|value| value.value.as_ref()))
    }

    fn tags(attributes: &[KeyValue]) -> Vec<(&str, Option<&Value>)> {
        attributes.iter().map(tag).collect()
    }

    #[test]
    fn kind_scope_and_error_become_tags() {
        let status = Some(Status { message: "too long".to_owned(), code: StatusCode::Error.into() });
        let (spans, rejected) = translated(Span { kind: SpanKind::Client.into(), status, ..valid_span() });
        let expected = [
            ("span.kind", text("client")),
            ("otel.scope.name", text("lib")),
            ("error", Value::BoolValue(true)),
            ("otel.status_code", text("ERROR")),
            ("otel.status_description", text("too long")),
        ];
        assert_eq!(tags(&spans[0].attributes), expected.each_ref().map(|(key, value)| (*key, Some(value))));
        assert_eq!(rejected, 0);
    }

    #[test]
    fn a_span_without_kind_and_status_gets_no_tags_for_them() {
        let (spans, _) = translated(valid_span());
        assert_eq!(tags(&spans[0].attributes), [("otel.scope.name", Some(&text("lib")))]);
    }

    #[test]
    fn an_event_keeps_its_name() {
        let event = Event { name: "retry".to_owned(), ..Event::default() };
        let (spans, _) = translated(Span { events: vec![event], ..valid_span() });
        assert_eq!(tags(&spans[0].events[0].attributes), [("event", Some(&text("retry")))]);
    }

    #[test]
    fn services_are_distinguished_even_without_distinct_instance_ids() {
        let instance = |attributes: &[(&str, &str)]| {
            let mut resource = Resource::default();
            for (key, value) in attributes {
                set(&mut resource.attributes, key, text(value));
            }
            name_process(&mut resource);
            string(&resource.attributes, "service.instance.id").map(str::to_owned)
        };
        assert_eq!(instance(&[("service.name", "shop")]).as_deref(), Some("shop"));
        assert_eq!(instance(&[("service.name", "shop"), ("service.instance.id", "1")]).as_deref(), Some("shop/1"));
        assert_eq!(instance(&[]), None);
    }

    #[test]
    fn invalid_spans_are_rejected() {
        for span in [
            Span { trace_id: vec![], ..valid_span() },
            Span { span_id: vec![], ..valid_span() },
            Span { parent_span_id: valid_span().span_id, ..valid_span() },
        ] {
            let (spans, rejected) = translated(span);
            assert_eq!((spans.len(), rejected), (0, 1));
        }
    }

    #[test]
    fn a_link_within_the_trace_does_not_replace_the_parent() {
        let link = |trace_id| Link { trace_id, span_id: vec![3; 8], ..Link::default() };
        let (spans, _) = translated(Span { links: vec![link(vec![1; 16]), link(vec![9; 16])], ..valid_span() });
        assert_eq!(spans[0].links, [link(vec![9; 16])]);
    }

    #[test]
    fn a_span_does_not_end_before_its_start() {
        let (spans, _) = translated(Span { start_time_unix_nano: 9, end_time_unix_nano: 4, ..valid_span() });
        assert_eq!(spans[0].end_time_unix_nano, 9);
    }
}
