//! The readers of prompts: the table of providers and chat templates, and the reader of a call.
//!
//! # Decisions
//!
//! - **A row is found by provider, host and model**, as far as they are known. The provider that an adapter guesses,
//!   because nobody named one, is not used: many providers have OpenAI's API.
//! - **All rows that match a call count together**, because each of them only says what is refused. So a row can be
//!   about a provider, about a chat template, or about one model of a provider.
//! - **A hosted service has rules of its own.** The rows of chat templates are about servers that people run.

#[cfg(feature = "config")]
mod config;
mod table;

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use tower_chat_history_core::{Compat, Digest, MadeBy, Origin, Provenance};

use crate::context::budget::normalized_names;

/// A text of a row.
type Text = Cow<'static, str>;

/// A row of the table: a provider, a server or a chat template, and what it accepts.
///
/// A row applies to a call if all conditions hold that the row has: one of its providers or hosts is called, and one of
/// its models. A row without conditions never applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct ReaderRow {
    /// The name of the row.
    #[cfg_attr(feature = "config", serde(skip))]
    pub name: Text,
    /// The names of the provider, as [`Origin::provider`] or [`Origin::route`] has them. Upper and lower case are
    /// equal.
    pub providers: Vec<Text>,
    /// The hosts. `example.com` also stands for all hosts that end in `.example.com`.
    pub hosts: Vec<Text>,
    /// The names of models, or the beginnings of names. Upper and lower case are equal, and so are dot and hyphen. A
    /// path or a maker before a name does not matter, as in the [table of context windows](crate::budget).
    pub models: Vec<Text>,
    /// True for a service that has rules of its own for all models. Rows that have only models don't apply to it,
    /// because they are about chat templates on servers that people run.
    pub hosted: bool,
    /// The description of what is accepted.
    pub compat: Compat,
    /// Where the rules were read.
    pub source: Text,
    /// The month in which they were read, such as `2026-11`.
    pub month: Text,
}

impl ReaderRow {
    /// Creates a row without conditions.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>, compat: Compat) -> Self {
        Self { name: name.into(), compat, ..Self::default() }
    }

    /// Adds a name of the provider.
    #[must_use]
    pub fn provider(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.providers.push(name.into());
        self
    }

    /// Adds a host.
    #[must_use]
    pub fn host(mut self, host: impl Into<Cow<'static, str>>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Adds the name of a model, or the beginning of one.
    #[must_use]
    pub fn model(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.models.push(name.into());
        self
    }

    /// Makes this a row of a service that has rules of its own for all models.
    #[must_use]
    pub const fn hosted(mut self) -> Self {
        self.hosted = true;
        self
    }

    /// Sets where and when the rules were read.
    #[must_use]
    pub fn source(mut self, source: impl Into<Cow<'static, str>>, month: impl Into<Cow<'static, str>>) -> Self {
        self.source = source.into();
        self.month = month.into();
        self
    }

    fn is_of_service(&self) -> bool {
        !self.providers.is_empty() || !self.hosts.is_empty()
    }

    /// Returns `true` if the row has this name of a provider, or this host.
    fn names(&self, service: &str) -> bool {
        self.providers.iter().any(|name| name.eq_ignore_ascii_case(service))
            || self.hosts.iter().any(|host| is_host(service, host))
    }
}

/// Returns `true` if a host is this one, or a part of it.
fn is_host(host: &str, of: &str) -> bool {
    let Some(start) = host.len().checked_sub(of.len()) else { return false };
    let (before, end) = host.as_bytes().split_at(start);
    end.eq_ignore_ascii_case(of.as_bytes()) && before.last().is_none_or(|byte| *byte == b'.')
}

/// The table of readers. It has the rows of this version, and those that a program adds.
///
/// ```
/// use tower_chat_history::{HistoryOptions, compat::{Compat, ReaderRow, Readers}};
///
/// // A server whose chat template lets messages of the user and replies alternate.
/// let row = ReaderRow::new("our-vllm", Compat::new().alternates()).host("vllm.acme.test");
/// let options = HistoryOptions::new().readers(Readers::new().with(row));
/// # let _ = options;
/// ```
#[derive(Clone)]
pub struct Readers {
    rows: Cow<'static, [ReaderRow]>,
    /// The last reader that was looked up: most calls have the same one.
    last: Arc<Mutex<Option<Found>>>,
}

/// A reader that was found in the table.
#[derive(Debug)]
struct Found {
    origin: Origin,
    host: Option<String>,
    compat: Compat,
}

/// The rows of this version.
static ROWS: LazyLock<Vec<ReaderRow>> = LazyLock::new(table::rows);

impl Readers {
    /// Creates the table of this version.
    #[must_use]
    pub fn new() -> Self {
        Self { rows: Cow::Borrowed(&ROWS), last: Arc::default() }
    }

    /// Creates a table without rows.
    #[must_use]
    pub fn none() -> Self {
        Self { rows: Cow::Borrowed(&[]), last: Arc::default() }
    }

    /// Adds a row. It replaces the row of this name, if there is one.
    #[must_use]
    pub fn with(mut self, row: ReaderRow) -> Self {
        let rows = self.rows.to_mut();
        rows.retain(|other| other.name != row.name);
        rows.push(row);
        self.last = Arc::default();
        self
    }

    /// Returns the rows.
    #[must_use]
    pub fn rows(&self) -> &[ReaderRow] {
        &self.rows
    }

    /// Returns what the reader of a call accepts, if the call goes to this provider and to this host.
    #[must_use]
    pub fn compat(&self, origin: &Origin, host: Option<&str>) -> Compat {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = &*last
            && found.host.as_deref() == host
            && found.origin == *origin
        {
            return found.compat;
        }

        let compat = self.find(origin, host);
        *last = Some(Found { origin: origin.clone(), host: host.map(str::to_owned), compat });
        compat
    }

    fn find(&self, origin: &Origin, host: Option<&str>) -> Compat {
        let services = [origin.provider.as_deref(), origin.route.as_deref(), host];
        let mut models = None;
        let mut is_hosted = false;
        let mut of_service = Compat::new();
        let mut of_template = Compat::new();
        for row in &*self.rows {
            let has_service = row.is_of_service();
            if has_service && !services.into_iter().flatten().any(|service| row.names(service)) {
                continue;
            }
            if !row.models.is_empty() {
                let models = models.get_or_insert_with(|| model_names(origin));
                if !row.models.iter().any(|prefix| models.iter().any(|model| begins_with(model, prefix))) {
                    continue;
                }
            }

            is_hosted |= row.hosted;
            if has_service {
                of_service = of_service.and(&row.compat);
            } else if !row.models.is_empty() {
                of_template = of_template.and(&row.compat);
            }
        }
        if is_hosted { of_service } else { of_service.and(&of_template) }
    }
}

/// Shows the number of rows, and those that a program has added.
impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let added: Vec<&ReaderRow> = self.rows.iter().filter(|row| !ROWS.contains(row)).collect();
        f.debug_struct("Readers").field("rows", &self.rows.len()).field("added", &added).finish_non_exhaustive()
    }
}

impl Default for Readers {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the forms in which the name of a call's model is compared.
fn model_names(origin: &Origin) -> Vec<String> {
    origin.model.as_deref().map(normalized_names).into_iter().flatten().collect()
}

/// Returns `true` if a name in the form in which names are compared begins with this prefix, which ends where a part of
/// the name ends.
fn begins_with(name: &str, prefix: &str) -> bool {
    let mut rest = name.chars();
    let has_prefix = prefix.chars().all(|letter| {
        let letter = if letter == '.' { '-' } else { letter.to_ascii_lowercase() };
        rest.next() == Some(letter)
    });
    has_prefix && !prefix.is_empty() && rest.next().is_none_or(|next| !next.is_ascii_alphanumeric())
}

/// Returns the key under which a conversation remembers what it has learned about a reader.
pub(crate) fn reader_key(origin: &Origin, host: Option<&str>) -> Digest {
    let Origin { provider, route, model, .. } = origin;
    let mut key = Digest::default();
    for name in [provider.as_deref(), route.as_deref(), model.as_deref(), host] {
        key = key.then(Digest::of(name.unwrap_or_default().as_bytes()));
    }
    key
}

/// Returns who made a reply, as the reader at this origin and host sees it.
pub(crate) fn made_by(made: Option<&Provenance>, reader: &Origin, host: Option<&str>) -> MadeBy {
    let Some(made) = made else { return MadeBy::Unknown };

    let services = service(&made.origin, made.host.as_deref()).zip(service(reader, host));
    if let Some((maker, reader_name)) = services {
        let routes = made.origin.route.as_deref().zip(reader.route.as_deref());
        let is_same = maker.eq_ignore_ascii_case(reader_name) && routes.is_none_or(|(one, other)| one == other);
        return if is_same { MadeBy::Reader } else { MadeBy::Other };
    }
    match family(&made.origin).zip(family(reader)) {
        Some((maker, reader)) if maker == reader => MadeBy::Reader,
        Some(_) => MadeBy::Other,
        None => MadeBy::Unknown,
    }
}

/// Returns the name of the service that is called, as far as it's known. A provider has the same name as its host.
fn service<'a>(origin: &'a Origin, host: Option<&'a str>) -> Option<&'a str> {
    // Addresses tell little: a server's replicas have many, and many servers have the same one.
    let host = host.filter(|host| *host != "localhost" && !is_address(host));
    let name = origin.provider.as_deref().or(host)?;
    let row = ROWS.iter().find(|row| row.names(name));
    Some(row.map_or(name, |row| &*row.name))
}

fn is_address(host: &str) -> bool {
    host.starts_with('[') || host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// The names with which the models of makers begin, and their maker.
const FAMILIES: [(&str, &str); 28] = [
    ("gpt-oss", "gpt-oss"),
    ("gpt", "openai"),
    ("chatgpt", "openai"),
    ("codex", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("claude", "anthropic"),
    ("gemini", "google"),
    ("gemma", "gemma"),
    ("deepseek", "deepseek"),
    ("grok", "xai"),
    ("kimi", "moonshot"),
    ("moonshot", "moonshot"),
    ("mistral", "mistral"),
    ("mixtral", "mistral"),
    ("magistral", "mistral"),
    ("ministral", "mistral"),
    ("codestral", "mistral"),
    ("devstral", "mistral"),
    ("qwen", "qwen"),
    ("qwq", "qwen"),
    ("llama", "llama"),
    ("glm", "glm"),
    ("minimax", "minimax"),
    ("command", "cohere"),
    ("nova", "nova"),
    ("phi", "phi"),
];

/// Returns the maker of an origin's model, by the beginning of its name.
fn family(origin: &Origin) -> Option<&'static str> {
    let names = model_names(origin);
    let of_name = |name: &String| FAMILIES.iter().find(|(prefix, _)| name.starts_with(prefix));
    names.iter().find_map(of_name).map(|(_, maker)| *maker)
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{Positions, PromptDigests, SystemMessages};

    use super::*;

    fn compat(provider: Option<&str>, host: Option<&str>, model: &str) -> Compat {
        let mut origin = Origin::unknown().model(model);
        origin.provider = provider.map(str::to_owned);
        Readers::new().compat(&origin, host)
    }

    #[test]
    fn every_row_has_conditions_a_source_and_a_month() {
        let rows = Readers::new();
        for row in rows.rows() {
            let name = &row.name;
            assert!(row.is_of_service() || !row.models.is_empty(), "{name}");
            assert!(row.source.len() > 6, "{name}");
            assert!(row.month.len() == 7 && row.month.starts_with("202"), "{name}: {}", row.month);
            assert_eq!(rows.rows().iter().filter(|other| other.name == row.name).count(), 1, "{name}");
        }
    }

    /// Returns the rows as the page *providers* has them.
    fn page() -> String {
        let code = |names: &[Text]| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        let mut page = String::from(
            "| reader | providers | hosts | models | flags | source | month |\n|---|---|---|---|---|---|---|\n",
        );
        for row in Readers::new().rows() {
            let flags = serde_json::to_string(&row.compat).unwrap();
            let ReaderRow { name, source, month, .. } = row;
            let [providers, hosts, models] = [&row.providers, &row.hosts, &row.models].map(|names| code(names));
            page += &format!("| {name} | {providers} | {hosts} | {models} | `{flags}` | {source} | {month} |\n");
        }
        page
    }

    #[test]
    fn the_page_of_providers_has_the_rows() {
        let page = page();
        assert!(include_str!("../../../docs/providers.md").contains(&page), "put this into docs/providers.md:\n{page}");
    }

    #[test]
    fn readers_are_found_by_provider_host_route_and_model() {
        let groq = compat(Some("groq"), None, "m");
        assert!(groq.plain_fields);
        assert_eq!(compat(Some("Groq"), None, "m"), groq);
        assert_eq!(compat(None, Some("api.groq.com"), "m"), groq);
        assert_eq!(Readers::new().compat(&Origin::unknown().provider("mine").route("groq"), None), groq);
        for unknown in ["groq.com", "api.groq.com.evil.test", "xapi.groq.com", ""] {
            assert_eq!(compat(None, Some(unknown), "m"), Compat::new(), "{unknown}");
        }
        assert!(compat(None, Some("mine.openai.azure.com"), "m") != Compat::new());
    }

    #[test]
    fn templates_count_on_servers_that_people_run() {
        for model in ["gemma-3-27b-it", "google/gemma-3-27b-it", "Gemma-2-9b", "gemma3:4b"] {
            assert_eq!(compat(None, Some("vllm.acme.test"), model).system, SystemMessages::Never, "{model}");
        }
        assert_eq!(compat(Some("vllm"), None, "Qwen/Qwen3.5-9B").system, SystemMessages::First);
        assert_eq!(compat(None, None, "qwen3.55").system, SystemMessages::Anywhere, "another name");
        assert!(compat(None, None, "meta-llama/Llama-3.1-8B-Instruct").single_calls);
        assert!(!compat(Some("groq"), None, "llama-3.1-8b-instant").single_calls);
    }

    #[test]
    fn a_program_adds_and_replaces_rows() {
        let more = Compat::new().alternates();
        let readers = Readers::new().with(ReaderRow::new("mine", more).host("acme.test").model("special"));
        let acme = |model| readers.compat(&Origin::unknown().model(model), Some("llm.acme.test"));
        assert_eq!(acme("special-2"), more);
        assert_eq!(acme("other"), Compat::new());

        let readers = Readers::new().with(ReaderRow::new("groq", Compat::new()).provider("groq").hosted());
        assert_eq!(readers.compat(&Origin::unknown().provider("groq"), None), Compat::new());
        let readers = Readers::none().with(ReaderRow::new("nobody", more));
        assert_eq!(readers.compat(&Origin::unknown().provider("groq"), None), Compat::new());
    }

    #[test]
    fn makers_are_compared_as_far_as_they_are_known() {
        let unknown = Origin::unknown();
        let by = |made: &Origin, made_host: Option<&str>, reader: &Origin, host: Option<&str>| {
            let made = Provenance::new(1, Positions::default(), PromptDigests::default(), made.clone());
            made_by(Some(&made.host(made_host.map(str::to_owned))), reader, host)
        };
        let provider = |name: &str| Origin::unknown().provider(name);
        let model = |name: &str| Origin::unknown().model(name);
        for (made, made_host, reader, host, expected) in [
            (&unknown, None, &unknown, None, MadeBy::Unknown),
            (&provider("deepseek"), None, &unknown, None, MadeBy::Unknown),
            (&provider("deepseek"), None, &provider("DeepSeek"), None, MadeBy::Reader),
            (&provider("deepseek"), None, &unknown, Some("api.deepseek.com"), MadeBy::Reader),
            (&provider("kimi"), None, &provider("moonshot_ai"), None, MadeBy::Reader),
            (&provider("deepseek"), None, &provider("groq"), None, MadeBy::Other),
            (&unknown, Some("api.openai.com"), &unknown, Some("api.mistral.ai"), MadeBy::Other),
            (&unknown, Some("a.test"), &unknown, Some("a.test"), MadeBy::Reader),
            (&unknown, Some("10.0.0.1"), &unknown, Some("10.0.0.2"), MadeBy::Unknown),
            (&unknown, Some("localhost"), &provider("groq"), None, MadeBy::Unknown),
            (&model("deepseek-v4-pro"), None, &model("deepseek/deepseek-chat"), None, MadeBy::Reader),
            (&model("gpt-4o"), None, &model("o3-mini"), None, MadeBy::Reader),
            (&model("gpt-4o"), None, &model("my-finetune"), None, MadeBy::Unknown),
            (&model("deepseek-v4-pro"), None, &model("llama-3.3-70b-versatile"), None, MadeBy::Other),
            (&provider("p").route("r"), None, &provider("p").route("s"), None, MadeBy::Other),
            (&provider("p").model("gpt-4o"), None, &provider("p").model("llama-3"), None, MadeBy::Reader),
        ] {
            assert_eq!(by(made, made_host, reader, host), expected, "{made:?} {made_host:?} {reader:?} {host:?}");
        }
        assert_eq!(made_by(None, &unknown, None), MadeBy::Unknown);
    }
}
