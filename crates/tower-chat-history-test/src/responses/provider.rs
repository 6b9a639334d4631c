//! The provider: it checks requests and makes responses.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use tower_chat_history_core::{Digest, Usage};

use super::{
    calls, fields, item,
    made::MadeResponse,
    reasoning,
    refusal::Refusal,
    say::Say,
    seal::{Sealed, id},
};
use crate::lock::lock;

/// A provider of OpenAI's Responses API. See the [module docs](super). Clones are the same provider.
///
/// ```
/// use tower_chat_history_test::responses::{Reason, ResponsesProvider, Say};
///
/// let (one, two) = (ResponsesProvider::new("one"), ResponsesProvider::new("two"));
/// let made = one.reply(r#"{"input":"Hi!"}"#, &[Say::reasoning(), Say::text("Hello!")])?;
/// let body = format!(r#"{{"input":[{},{{"role":"user","content":"And now?"}}]}}"#, made.output.join(","));
/// assert_eq!(one.check(&body), Ok(()));
///
/// let refusal = two.check(&body).unwrap_err();
/// assert_eq!(refusal.reason(), &Reason::ForeignContent { position: 0 });
/// assert_eq!((refusal.status(), refusal.code()), (400, Some("invalid_encrypted_content")));
/// # Ok::<(), tower_chat_history_test::responses::Refusal>(())
/// ```
#[derive(Clone, Debug)]
pub struct ResponsesProvider {
    secret: Arc<Mutex<Digest>>,
    /// The number of responses.
    made: Arc<AtomicU64>,
}

impl ResponsesProvider {
    /// Creates the provider with this name: an account, or a route. Providers with one name can read each other's
    /// encrypted content.
    #[must_use]
    pub fn new(name: impl AsRef<str>) -> Self {
        Self { secret: Arc::new(Mutex::new(Digest::of(name.as_ref().as_bytes()))), made: Arc::default() }
    }

    /// Replaces the key of encrypted contents. From now on, the provider refuses the encrypted contents that it made
    /// before, with the code `invalid_encrypted_content`. Other providers with its name have the old key.
    ///
    /// ```
    /// use tower_chat_history_test::responses::{Reason, ResponsesProvider, Say};
    ///
    /// let provider = ResponsesProvider::new("acme");
    /// let made = provider.reply(r#"{"input":"Hi!"}"#, &[Say::reasoning(), Say::text("Hello!")])?;
    /// let body = format!(r#"{{"input":[{},{{"role":"user","content":"And now?"}}]}}"#, made.output.join(","));
    /// assert_eq!(provider.check(&body), Ok(()));
    ///
    /// provider.rotate_key();
    /// let refusal = provider.check(&body).unwrap_err();
    /// assert_eq!(refusal.reason(), &Reason::ForeignContent { position: 0 });
    /// # Ok::<(), tower_chat_history_test::responses::Refusal>(())
    /// ```
    pub fn rotate_key(&self) {
        let mut secret = lock(&self.secret);
        *secret = secret.then(Digest::of(b"next key"));
    }

    /// Checks the body of a request.
    ///
    /// # Errors
    ///
    /// Returns the first reason why the provider refuses the request.
    pub fn check(&self, body: &str) -> Result<(), Refusal> {
        let items = item::read_input(body)?;
        fields::check_unique(&items)?;
        reasoning::check(*lock(&self.secret), &items)?;
        calls::check(&items)
    }

    /// Checks the body of a request, and returns the scripted response.
    ///
    /// # Errors
    ///
    /// Returns the error of [`check`](Self::check).
    pub fn reply(&self, body: &str, script: &[Say]) -> Result<MadeResponse, Refusal> {
        self.check(body)?;
        Ok(self.reply_unchecked(body, script))
    }

    /// Returns the scripted response, for a request that may break the rules.
    pub(crate) fn reply_unchecked(&self, body: &str, script: &[Say]) -> MadeResponse {
        let response = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        let secret = *lock(&self.secret);
        let is_reasoning = |at: usize| matches!(script.get(at), Some(Say::Reasoning(_)));
        let id_of = |at: usize| {
            let output = script.get(at)?;
            let before = at.checked_sub(1).filter(|before| is_reasoning(*before) && output.requires_reasoning());
            let id = id(output.prefix(), response, at, before);
            Some(if output.keeps_its_id() { format!("{id}_{secret}") } else { id })
        };
        let item = |(at, output): (usize, &Say)| {
            let (id, next) = (id_of(at).unwrap_or_default(), id_of(at + 1).unwrap_or_default());
            let next = if is_reasoning(at) { next.as_str() } else { "" };
            output.json(&id, &Sealed { id: &id, next }.seal(secret)).to_string()
        };
        let output: Vec<String> = script.iter().enumerate().map(item).collect();
        let request: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        MadeResponse {
            id: format!("resp_{response:06x}"),
            model: request["model"].as_str().unwrap_or("mock").to_owned(),
            usage: Usage::new(body.len() as u64 / 4, output.len() as u64),
            output,
            incomplete: None,
            fields: serde_json::Map::new(),
        }
    }
}
