//! The provider: it checks requests and makes responses.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use tower_chat_history_core::{Digest, Usage};

use super::{
    item::{self, Item},
    reasoning::{self, Envelope, id},
    refusal::{Reason, Refusal},
    reply::{MadeResponse, Say},
};
use crate::util::lock;

/// A provider of OpenAI's Responses API. See the [module docs](super). Clones are the same provider.
///
/// ```
/// use tower_chat_history_test::responses::{Reason, ResponsesProvider, Say};
///
/// let one = ResponsesProvider::new("one");
/// let two = ResponsesProvider::new("two");
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
        check_unique(&items)?;
        reasoning::check(*lock(&self.secret), &items)?;
        check_calls(&items)
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

        let ids: Vec<String> = (0..script.len()).map(|at| id_of(script, at, response, secret)).collect();
        let mut output = Vec::new();
        for (at, say) in script.iter().enumerate() {
            let next = match say {
                Say::Reasoning(_) => ids.get(at + 1).map(String::as_str).unwrap_or_default(),
                _ => "",
            };
            let encrypted = Envelope { id: &ids[at], next }.seal(secret);
            output.push(say.json(&ids[at], &encrypted).to_string());
        }

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

/// Returns the id of the item at this place of a script.
fn id_of(script: &[Say], at: usize, response: u64, secret: Digest) -> String {
    let say = &script[at];
    let before = at.checked_sub(1).filter(|before| matches!(script[*before], Say::Reasoning(_)));
    let id = id(say.prefix(), response, at, before.filter(|_| say.requires_reasoning()));
    if say.keeps_its_id() { format!("{id}_{secret}") } else { id }
}

/// Checks that no two items have the same id.
fn check_unique(items: &[Item]) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    for (position, item) in items.iter().enumerate() {
        let Some(id) = item.id.as_deref().filter(|_| item.kind != "item_reference") else { continue };
        if !seen.insert(id) {
            return Err(Refusal::of_item(Reason::RepeatedItem { position }, id));
        }
    }
    Ok(())
}

/// Checks that each call has one output of its kind after it.
fn check_calls(items: &[Item]) -> Result<(), Refusal> {
    let mut open = Vec::new();
    for (position, item) in items.iter().enumerate() {
        if let Some(call) = &item.calls {
            open.push((position, call));
        }
        if let Some(answered) = &item.answers {
            let Some(at) = open.iter().position(|(_, call)| *call == answered) else {
                return Err(Refusal::of_call(Reason::UnknownCall { position }, answered));
            };
            open.remove(at);
        }
    }

    match open.first() {
        Some((position, call)) => Err(Refusal::of_call(Reason::UnansweredCall { position: *position }, call)),
        None => Ok(()),
    }
}
