//! The source of a mock's replies.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex},
};

use tower_chat_history_core::{Compat, Message};

use crate::{
    compat_rules::check_compat,
    provider::{ChatProvider, Prompt, ReplyRecords, Signer},
    reply::{ApiFailure, Reply},
    util::lock,
};
#[cfg(feature = "server")]
use crate::{
    messages::{MadeMessage, MessagesProvider},
    reply::NoReply,
    responses::{MadeResponse, ResponsesProvider},
};

/// The source of the replies of a [`MockLlm`](crate::MockLlm) or a [`MockServer`](crate::MockServer).
///
/// It is either a script, whose replies are used in order, or a rule, which computes each reply from the messages of
/// the request. A list of replies converts into a script. Clones share the script.
///
/// ```
/// use tower_chat_history_test::{Replies, Reply, rules};
///
/// let script = Replies::script([Reply::text("Hello!"), Reply::text("Bye!")]);
/// let rule = Replies::rules(|messages| Reply::text(format!("{} messages", messages.len())));
/// let memory = Replies::rules(rules::remembering());
/// ```
///
/// # Checked prompts
///
/// A request that breaks the [chat rules](crate::check_chat_rules) is answered with OpenAI's error (status 400) and
/// uses no reply of the script. A test that examines only replies therefore also detects an invalid prompt.
/// With a [`provider`](Self::provider), the provider's own rules are checked as well, and the error is the provider's.
/// Requests of Anthropic's Messages API are checked by the [rules of this API](crate::messages#rules), and requests of
/// OpenAI's Responses API by [its rules](crate::responses#rules).
/// [`check_prompts`](Self::check_prompts) switches the check off.
#[derive(Clone)]
pub struct Replies {
    source: Arc<Source>,
    check_prompts: bool,
    provider: ChatProvider,
    compat: Compat,
    /// The replies with reasoning.
    records: ReplyRecords,
    #[cfg(feature = "server")]
    messages: MessagesProvider,
    #[cfg(feature = "server")]
    responses: ResponsesProvider,
}

enum Source {
    Script(Mutex<Script>),
    Rule(Box<dyn Fn(&[Message]) -> Reply + Send + Sync>),
}

struct Script {
    scripted: usize,
    left: VecDeque<Reply>,
}

impl Replies {
    /// Creates a script of these replies. When they are used up, requests are answered with an error that clients do
    /// not retry: status 400 with code `script_used_up`.
    #[must_use]
    pub fn script(replies: impl IntoIterator<Item = Reply>) -> Self {
        let left: VecDeque<_> = replies.into_iter().collect();
        Self::new(Source::Script(Mutex::new(Script { scripted: left.len(), left })))
    }

    /// Creates a rule, which computes the reply from the messages of each request.
    #[must_use]
    pub fn rules(rule: impl Fn(&[Message]) -> Reply + Send + Sync + 'static) -> Self {
        Self::new(Source::Rule(Box::new(rule)))
    }

    fn new(source: Source) -> Self {
        Self {
            source: Arc::new(source),
            check_prompts: true,
            provider: ChatProvider::default(),
            compat: Compat::new(),
            records: ReplyRecords::default(),
            #[cfg(feature = "server")]
            messages: MessagesProvider::new("mock"),
            #[cfg(feature = "server")]
            responses: ResponsesProvider::new("mock"),
        }
    }

    /// Sets the provider whose rules apply. The default is [`ChatProvider::OpenAi`]. Replies then have the provider's
    /// fields: reasoning ([`Reply::thinking`]) and signatures.
    ///
    /// A mock remembers by text and calls which of its replies had reasoning. Only these replies need it later. If two
    /// replies of a script have the same text and the same ids of calls, the later one counts.
    #[must_use]
    pub fn provider(mut self, provider: ChatProvider) -> Self {
        self.provider = provider;
        self
    }

    /// Sets what the reader of chat completions accepts. Anything else is refused with status 400, in the words of a
    /// reader with the same rule. The default is a reader that accepts everything.
    #[must_use]
    pub const fn compat(mut self, compat: Compat) -> Self {
        self.compat = compat;
        self
    }

    /// Sets whether prompts are checked against the rules. The default is true.
    #[must_use]
    pub fn check_prompts(mut self, check: bool) -> Self {
        self.check_prompts = check;
        self
    }

    /// Adds a reply to the end of a script. For a rule, this does nothing.
    pub fn push(&self, reply: Reply) {
        if let Source::Script(script) = &*self.source {
            let mut script = lock(script);
            script.scripted += 1;
            script.left.push_back(reply);
        }
    }

    /// Returns the number of replies left in a script; `None` for a rule.
    #[must_use]
    pub fn left(&self) -> Option<usize> {
        match &*self.source {
            Source::Script(script) => Some(lock(script).left.len()),
            Source::Rule(_) => None,
        }
    }

    /// Returns the reply to a request, and the provider's part in it.
    pub(crate) fn next(&self, prompt: &Prompt<'_>) -> (Reply, Signer) {
        if self.check_prompts
            && let Err(refusal) = self.provider.check_prompt(prompt, Some(&self.records))
        {
            return (Reply::error(refusal.into()), Signer::default());
        }
        if self.check_prompts
            && let Err(violation) = check_compat(prompt.messages, prompt.tools.is_some(), &self.compat)
        {
            return (Reply::error(ApiFailure::new(400, violation.to_string())), Signer::default());
        }
        (self.take(prompt.messages), Signer::new(self.provider, &self.records, prompt))
    }

    /// Returns the reply to a request of Anthropic's Messages API, with its signatures.
    #[cfg(feature = "server")]
    pub(crate) fn next_message(&self, body: &str, messages: &[Message]) -> (Reply, Result<MadeMessage, NoReply>) {
        if self.check_prompts
            && let Err(refusal) = self.messages.check(body)
        {
            return refused(refusal.into());
        }
        let reply = self.take(messages);
        let made = reply.blocks().and_then(|blocks| {
            let made = self.messages.reply_unchecked(body, &blocks);
            made.map(|made| reply.finish_message(made)).map_err(|refusal| NoReply::Failure(refusal.into()))
        });
        (reply, made)
    }

    /// Returns the reply to a request of OpenAI's Responses API, with its encrypted items.
    #[cfg(feature = "server")]
    pub(crate) fn next_response(&self, body: &str, items: &[Message]) -> (Reply, Result<MadeResponse, NoReply>) {
        if self.check_prompts
            && let Err(refusal) = self.responses.check(body)
        {
            return refused(refusal.into());
        }
        let reply = self.take(items);
        let made = reply.items().map(|items| self.responses.reply_unchecked(body, &items));
        let made = made.map(|made| reply.finish_response(made));
        (reply, made)
    }

    fn take(&self, messages: &[Message]) -> Reply {
        match &*self.source {
            Source::Rule(rule) => rule(messages),
            Source::Script(script) => {
                let mut script = lock(script);
                script.left.pop_front().unwrap_or_else(|| used_up(script.scripted))
            }
        }
    }
}

#[cfg(feature = "server")]
fn refused<T>(failure: ApiFailure) -> (Reply, Result<T, NoReply>) {
    (Reply::error(failure.clone()), Err(NoReply::Failure(failure)))
}

fn used_up(scripted: usize) -> Reply {
    let message = format!("the mock's script is used up: it had {scripted} replies");
    Reply::error(ApiFailure::new(400, message).code("script_used_up"))
}

impl From<Vec<Reply>> for Replies {
    fn from(replies: Vec<Reply>) -> Self {
        Self::script(replies)
    }
}

impl<const N: usize> From<[Reply; N]> for Replies {
    fn from(replies: [Reply; N]) -> Self {
        Self::script(replies)
    }
}

impl fmt::Debug for Replies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Replies");
        out.field("check_prompts", &self.check_prompts).field("provider", &self.provider);
        if let Some(left) = self.left() {
            out.field("left", &left);
        }
        out.finish_non_exhaustive()
    }
}
