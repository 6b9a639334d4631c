//! The provider: it checks requests and makes responses.

use tower_chat_history_core::Digest;

use super::{
    calls, item,
    made::MadeResponse,
    output::Output,
    reasoning,
    refusal::ResponsesRefusal,
    seal::{Sealed, id},
};

/// A provider of OpenAI's Responses API. See the [module docs](super).
///
/// ```
/// use tower_chat_history_test::responses::{Output, ResponsesProvider, ResponsesRefused};
///
/// let (mut one, two) = (ResponsesProvider::new("one"), ResponsesProvider::new("two"));
/// let made = one.respond(r#"{"input":"Hi!"}"#, &[Output::reasoning(), Output::text("Hello!")])?;
/// let body = format!(r#"{{"input":[{},{{"role":"user","content":"And now?"}}]}}"#, made.output.join(","));
/// assert_eq!(one.check(&body), Ok(()));
///
/// let refusal = two.check(&body).unwrap_err();
/// assert_eq!(refusal.reason(), &ResponsesRefused::ForeignContent { position: 0 });
/// assert_eq!((refusal.status(), refusal.code()), (400, Some("invalid_encrypted_content")));
/// # Ok::<(), tower_chat_history_test::responses::ResponsesRefusal>(())
/// ```
#[derive(Clone, Debug)]
pub struct ResponsesProvider {
    secret: Digest,
    /// The number of responses.
    made: u64,
}

impl ResponsesProvider {
    /// Creates the provider with this name: an account, or a route. Providers with one name can read each other's
    /// encrypted content.
    #[must_use]
    pub fn new(name: impl AsRef<str>) -> Self {
        Self { secret: Digest::of(name.as_ref().as_bytes()), made: 0 }
    }

    /// Replaces the key of encrypted contents. From now on, the provider refuses the encrypted contents that it made
    /// before, with the code `invalid_encrypted_content`. Other providers with its name have the old key.
    ///
    /// ```
    /// use tower_chat_history_test::responses::{Output, ResponsesProvider, ResponsesRefused};
    ///
    /// let mut provider = ResponsesProvider::new("acme");
    /// let made = provider.respond(r#"{"input":"Hi!"}"#, &[Output::reasoning(), Output::text("Hello!")])?;
    /// let body = format!(r#"{{"input":[{},{{"role":"user","content":"And now?"}}]}}"#, made.output.join(","));
    /// assert_eq!(provider.check(&body), Ok(()));
    ///
    /// provider.rotate_key();
    /// let refusal = provider.check(&body).unwrap_err();
    /// assert_eq!(refusal.reason(), &ResponsesRefused::ForeignContent { position: 0 });
    /// # Ok::<(), tower_chat_history_test::responses::ResponsesRefusal>(())
    /// ```
    pub fn rotate_key(&mut self) {
        self.secret = self.secret.then(Digest::of(b"next key"));
    }

    /// Checks the body of a request.
    ///
    /// # Errors
    ///
    /// Returns the first reason why the provider refuses the request.
    pub fn check(&self, body: &str) -> Result<(), ResponsesRefusal> {
        let items = item::read_input(body)?;
        reasoning::check(self.secret, &items)?;
        calls::check(&items)
    }

    /// Checks the body of a request, and returns the scripted response.
    ///
    /// # Errors
    ///
    /// Returns the error of [`check`](Self::check).
    pub fn respond(&mut self, body: &str, script: &[Output]) -> Result<MadeResponse, ResponsesRefusal> {
        self.check(body)?;
        self.made += 1;
        let response = self.made;
        let is_reasoning = |at: usize| matches!(script.get(at), Some(Output::Reasoning(_)));
        let id_of = |at: usize| {
            let output = script.get(at)?;
            let before = at.checked_sub(1).filter(|before| is_reasoning(*before) && output.requires_reasoning());
            Some(id(output.prefix(), response, at, before))
        };
        let item = |(at, output): (usize, &Output)| {
            let (id, next) = (id_of(at).unwrap_or_default(), id_of(at + 1).unwrap_or_default());
            let next = if is_reasoning(at) { next.as_str() } else { "" };
            output.json(&id, &Sealed { id: &id, next }.seal(self.secret)).to_string()
        };
        let output = script.iter().enumerate().map(item).collect();
        Ok(MadeResponse { id: format!("resp_{response:06x}"), output })
    }
}
