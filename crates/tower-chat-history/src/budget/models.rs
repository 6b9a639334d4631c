//! The context windows of models.

use std::{collections::BTreeMap, ops::Bound};

/// How much a model can read and write, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelLimits {
    /// The context window: prompt and reply together.
    pub context: u32,
    /// The prompt at most, where that is less than the window.
    pub input: Option<u32>,
    /// The reply at most.
    pub output: Option<u32>,
}

impl ModelLimits {
    /// A context window of that many tokens, prompt and reply together.
    #[must_use]
    pub const fn new(context: u32) -> Self {
        Self { context, input: None, output: None }
    }

    /// Limits the prompt. The default is the context window.
    #[must_use]
    pub const fn input(mut self, tokens: u32) -> Self {
        self.input = Some(tokens);
        self
    }

    /// Limits the reply. The default is the context window.
    #[must_use]
    pub const fn output(mut self, tokens: u32) -> Self {
        self.output = Some(tokens);
        self
    }
}

/// Models by name, and by the beginning of their name: `gpt-4o` stands for `gpt-4o-2024-08-06` too. A provider's prefix
/// (`openai/gpt-4o`) and that of a fine-tuned model (`ft:gpt-4o:acme`) are looked behind.
///
/// The table has OpenAI's models, by its model pages of 2025. Others, and newer ones, are added by
/// [`ContextBudget::model`](super::ContextBudget::model).
#[derive(Clone, Debug)]
pub struct ModelTable(BTreeMap<String, ModelLimits>);

const OPENAI: [(&str, ModelLimits); 28] = [
    ("chatgpt-4o", ModelLimits::new(128_000).output(16_384)),
    ("gpt-3.5-turbo", ModelLimits::new(16_385).output(4_096)),
    ("gpt-3.5-turbo-0301", ModelLimits::new(4_096).output(4_096)),
    ("gpt-3.5-turbo-0613", ModelLimits::new(4_096).output(4_096)),
    // As Azure calls it.
    ("gpt-35-turbo", ModelLimits::new(16_385).output(4_096)),
    ("gpt-3.5-turbo-instruct", ModelLimits::new(4_096).output(4_096)),
    ("gpt-4", ModelLimits::new(8_192).output(8_192)),
    ("gpt-4-0125-preview", ModelLimits::new(128_000).output(4_096)),
    ("gpt-4-1106", ModelLimits::new(128_000).output(4_096)),
    ("gpt-4-32k", ModelLimits::new(32_768).output(32_768)),
    ("gpt-4-turbo", ModelLimits::new(128_000).output(4_096)),
    ("gpt-4-vision", ModelLimits::new(128_000).output(4_096)),
    ("gpt-4.1", ModelLimits::new(1_047_576).output(32_768)),
    ("gpt-4.5", ModelLimits::new(128_000).output(16_384)),
    ("gpt-4o", ModelLimits::new(128_000).output(16_384)),
    ("gpt-5", ModelLimits::new(400_000).input(272_000).output(128_000)),
    ("gpt-5-chat", ModelLimits::new(128_000).output(16_384)),
    ("gpt-5.1-chat", ModelLimits::new(128_000).output(16_384)),
    ("gpt-5.2-chat", ModelLimits::new(128_000).output(16_384)),
    ("gpt-oss", ModelLimits::new(131_072).output(131_072)),
    ("o1", ModelLimits::new(200_000).output(100_000)),
    ("o1-mini", ModelLimits::new(128_000).output(65_536)),
    ("o1-preview", ModelLimits::new(128_000).output(32_768)),
    ("o3", ModelLimits::new(200_000).output(100_000)),
    ("o4-mini", ModelLimits::new(200_000).output(100_000)),
    ("codex-mini", ModelLimits::new(200_000).output(100_000)),
    ("gpt-4o-audio", ModelLimits::new(128_000).output(16_384)),
    ("gpt-4o-search", ModelLimits::new(128_000).output(16_384)),
];

impl ModelTable {
    /// The table of OpenAI's models.
    #[must_use]
    pub fn new() -> Self {
        Self(OPENAI.into_iter().map(|(name, limits)| (name.to_owned(), limits)).collect())
    }

    /// Adds a model, or replaces what the table says of it.
    pub fn insert(&mut self, name: impl Into<String>, limits: ModelLimits) {
        self.0.insert(name.into(), limits);
    }

    /// The limits of a model: those of the longest name in the table that its own name begins with.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn get(&self, model: &str) -> Result<ModelLimits, UnknownModel> {
        let found = [model, bare(model)].into_iter().find_map(|name| self.longest(name));
        found.ok_or_else(|| UnknownModel { model: model.to_owned() })
    }

    fn longest(&self, name: &str) -> Option<ModelLimits> {
        // What is longer comes later, so the first one from the end is the longest.
        let before = self.0.range::<str, _>((Bound::Unbounded, Bound::Included(name))).rev();
        before.filter(|(known, _)| begins_with(name, known)).map(|(_, limits)| *limits).next()
    }
}

/// The name behind a provider's prefix, and within that of a fine-tuned model.
fn bare(model: &str) -> &str {
    let tuned = model.split_once("ft:").map(|(_, tuned)| tuned.split(':').next().unwrap_or(tuned));
    tuned.unwrap_or_else(|| model.rsplit('/').next().unwrap_or(model))
}

/// Whether a name is that of a known model, or of one of its versions: `gpt-4o-2024-08-06` is a `gpt-4o`, and `o10` no `o1`.
fn begins_with(name: &str, known: &str) -> bool {
    name.strip_prefix(known).is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric()))
}

impl Default for ModelTable {
    fn default() -> Self {
        Self::new()
    }
}

/// A model that is not in the table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the context window of model {model:?} is not known: state it in tokens")]
pub struct UnknownModel {
    model: String,
}

impl UnknownModel {
    /// The model's name, as it was asked for.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_providers_and_fine_tuned_models_are_found() {
        let table = ModelTable::new();
        for (name, context) in [
            ("gpt-4o", 128_000),
            ("gpt-4o-2024-08-06", 128_000),
            ("gpt-4", 8_192),
            ("gpt-4-0613", 8_192),
            ("gpt-4.1-mini", 1_047_576),
            ("gpt-4-turbo-2024-04-09", 128_000),
            ("gpt-5-mini", 400_000),
            ("gpt-5.1", 400_000),
            ("gpt-5-chat-latest", 128_000),
            ("openai/gpt-4o-mini", 128_000),
            ("ft:gpt-3.5-turbo-0125:acme::id", 16_385),
            ("ft:gpt-3.5-turbo:acme/b:c", 16_385),
            ("openai/ft:gpt-4o:acme", 128_000),
            ("gpt-35-turbo", 16_385),
            ("gpt-4-vision-preview", 128_000),
            ("gpt-5.1-chat-latest", 128_000),
            ("o1", 200_000),
            ("o3-mini", 200_000),
        ] {
            assert_eq!(table.get(name).map(|limits| limits.context), Ok(context), "{name}");
        }
        for unknown in ["", "gpt", "o10", "gpt-4100", "claude", "llama-3"] {
            assert!(table.get(unknown).is_err(), "{unknown}");
        }
    }

    #[test]
    fn a_model_that_is_added_counts() {
        let mut table = ModelTable::new();
        table.insert("acme/large", ModelLimits::new(1));
        table.insert("gpt-4o-mini", ModelLimits::new(2));
        assert_eq!(table.get("acme/large-2").unwrap().context, 1);
        assert_eq!((table.get("gpt-4o-mini").unwrap().context, table.get("gpt-4o").unwrap().context), (2, 128_000));
    }
}
