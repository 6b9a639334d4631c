//! The parts that OpenAI's APIs share: the name of the provider, and the form of errors.

use http::Uri;
use serde_json::json;

use super::refusal::Refusal;

/// Returns the provider at an address: `azure.ai.openai` for Azure's hosts, and for a deployment in the path, and
/// `openai` for all others.
pub(crate) fn provider(uri: &Uri) -> &'static str {
    let by_host = uri.host().is_some_and(|host| host.ends_with(".openai.azure.com"));
    if by_host || uri.path().contains("/openai/deployments/") { "azure.ai.openai" } else { "openai" }
}

/// Returns the JSON of an error.
pub(crate) fn refusal(refusal: &Refusal) -> String {
    let kind = match refusal.status.as_u16() {
        429 => "rate_limit_error",
        400..500 => "invalid_request_error",
        _ => "server_error",
    };
    let Refusal { code, text, .. } = refusal;
    json!({"error": {"message": text, "type": kind, "param": null, "code": code}}).to_string()
}
