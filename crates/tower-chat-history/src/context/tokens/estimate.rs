//! Estimates for models whose tokenizer this crate does not have.
//!
//! # Decisions
//!
//! - **Estimates are by family of models.** One rate per byte is wrong by up to a factor of two for tool results and
//!   for Chinese.

mod presets;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use tower_chat_history_core::Message;

use self::presets::{Preset, TextRates};
use super::{Costs, TokenCounter, framing};
use crate::context::budget::normalized_names;

/// An estimate of the tokens that a family of models counts: of texts, by their words, digits and characters, and of
/// the other parts of a message, by a table of [costs](Costs).
///
/// [`for_model`](Self::for_model) finds the preset of a model by its name. The engine of `tower-chat-history` uses it
/// if neither the options nor the integration have a counter.
///
/// ```
/// use tower_chat_history::tokens::{Estimate, TokenCounter};
///
/// let text = "Tom chases mice.";
/// assert_eq!(Estimate::anthropic().count_text(text), 6);
/// assert_eq!(Estimate::gemini().count_text(text), 4);
/// assert_eq!(Estimate::for_model("claude-opus-5-5").unwrap().name().unwrap().as_ref(), "anthropic-estimate");
/// assert!(Estimate::for_model("gpt-5").is_none());
/// ```
///
/// # Presets
///
/// The costs are as of November 2026. Texts have a count of their own in each preset. All reasoning counts as text,
/// also that of earlier turns: newer Claude models keep it in the prompt. Older ones ignore it, so the count is too
/// high for them, until reports [correct](crate::context::ContextBudget::calibrate) it.
///
/// | preset | models | message | call, result | with tools | image | document | audio, video |
/// |---|---|---|---|---|---|---|---|
/// | [`anthropic`](Self::anthropic) | Claude since Opus 4.7, Sonnet 5, Haiku 5 and Fable 5 | 4 | 12, 10 | 406 | 28 × 28 pixels, at most 4,784 | 4,500 a page | as OpenAI |
/// | [`anthropic_older`](Self::anthropic_older) | earlier Claude models | 4 | 12, 10 | 346 | 28 × 28 pixels, at most 1,568 | 3,000 a page | as OpenAI |
/// | [`gemini`](Self::gemini) | Gemini 3 and later | 4 | 8, 8 | 0 | 1,120 | 1,120 a page | 1,920 and 6,120 |
/// | [`gemini_older`](Self::gemini_older) | Gemini 2.5 and earlier, Gemma | 4 | 8, 8 | 0 | 258 for 768 × 768 pixels | 1,120 a page | 1,920 and 17,700 |
/// | [`openai`](Self::openai) | none by default | 4 | 3, 0 | 0 | 85 or 1,445 | 2,000 | 600 and 2,000 |
/// | [`deepseek`](Self::deepseek) | DeepSeek | 4 | 12, 4 | 0 | as OpenAI | as OpenAI | as OpenAI |
/// | [`llama`](Self::llama) | Llama 3 and later | 5 | 9, 2 | 0 | as OpenAI | as OpenAI | as OpenAI |
/// | [`mistral`](Self::mistral) | Mistral, Mixtral, Ministral, Magistral, Codestral, Devstral, Pixtral | 4 | 18, 16 | 0 | as OpenAI | as OpenAI | as OpenAI |
/// | [`qwen`](Self::qwen) | Qwen, QwQ, QVQ | 5 | 13, 6 | 82 | as OpenAI | as OpenAI | as OpenAI |
///
/// Sources:
///
/// - **Anthropic, images:** the page *Images and vision* of platform.claude.com: one token for each square of 28
///   pixels. The limits to which larger images are reduced (2,576 pixels, 4,784 tokens) are from third parties.
/// - **Anthropic, tools:** the page *Tool use*: the system prompt for tools has 286 tokens for Opus 5, and 406 if a
///   tool is required. The number for older models is from third parties, for Claude 4.
/// - **Anthropic, documents:** the page *PDF support* says that each page counts as text and as image, without a
///   number. A published measurement found 2,800 tokens a page with Sonnet 4.5. The number for newer models is a guess.
/// - **Gemini:** the page *Understand and count tokens* of ai.google.dev (32 for a second of audio). The numbers for
///   images and pages (Gemini 3: 1,120 and 560; before: 258 for each tile) are from third parties that quote it. The
///   text of a document is a guess, and so is video: one minute at 102 tokens a second, and before Gemini 3 at 295.
/// - **DeepSeek, Llama, Qwen:** measured in the chat templates of DeepSeek V3 and Qwen 3, and in the prompt format of
///   Llama 3.1.
/// - **Guesses:** messages, calls and results of Claude and Gemini, which the providers do not publish, and all of
///   Mistral. It is known that Opus 4.7 and Sonnet 5 have Anthropic's newer tokenizer. For the later models, it is
///   assumed. Images of open models depend on the server.
///
/// If a message has the data itself, audio for Gemini has a token for every 500 bytes, and video one for every 1,000.
/// These are guesses by usual bit rates.
///
/// # Accuracy of texts
///
/// The table shows the estimate divided by the real count, for published tokenizers. The second number is that of
/// [`ByteEstimate`](super::ByteEstimate). Texts are chats (LoCoMo), tool results (tau-bench), this crate's sources,
/// and messages of Linux programs. The rates were fitted to other parts of the same texts, except for Arabic, UUIDs and
/// base64, where the same parts are shown.
///
/// | text | o200k_base | Claude 2 | Gemma | DeepSeek V3 | Llama 3 | Qwen 3 |
/// |---|---|---|---|---|---|---|
/// | English chats | 1.10, 1.14 | 1.12, 1.05 | 1.05, 1.04 | 1.12, 1.10 | 1.10, 1.10 | 1.11, 1.10 |
/// | JSON of tool results | 1.04, 0.71 | 1.07, 0.68 | 1.04, 0.56 | 1.08, 0.69 | 1.06, 0.71 | 1.05, 0.57 |
/// | Rust | 1.11, 1.07 | 1.12, 0.96 | 1.08, 0.93 | 1.16, 1.00 | 1.15, 1.07 | 1.15, 1.07 |
/// | German | 0.92, 1.01 | 0.92, 0.86 | 0.98, 1.00 | 0.98, 0.90 | 0.90, 0.90 | 0.91, 0.90 |
/// | French | 0.96, 1.08 | 1.13, 0.95 | 0.98, 1.03 | 1.02, 0.97 | 0.91, 0.98 | 0.93, 0.99 |
/// | Russian | 1.32, 2.51 | 1.49, 1.56 | 1.37, 2.52 | 1.35, 2.30 | 1.23, 2.32 | 1.47, 2.21 |
/// | Greek | 1.06, 2.15 | 0.71, 0.78 | 1.01, 1.99 | 0.94, 1.71 | 1.02, 2.07 | 0.62, 0.99 |
/// | Arabic | 1.13, 2.45 | 0.81, 0.92 | 1.04, 2.23 | 1.07, 2.09 | 0.96, 2.09 | 1.25, 2.08 |
/// | Chinese | 1.12, 1.51 | 1.21, 1.47 | 1.18, 1.62 | 1.17, 1.68 | 1.12, 1.50 | 1.07, 1.52 |
/// | Japanese | 1.15, 1.59 | 1.09, 1.36 | 1.33, 1.91 | 1.12, 1.67 | 1.20, 1.66 | 1.11, 1.62 |
/// | Korean | 1.07, 1.58 | 1.11, 1.16 | 1.14, 1.44 | 1.10, 1.45 | 1.09, 1.54 | 1.07, 1.45 |
/// | UUIDs | 1.02, 0.39 | 0.93, 0.37 | 1.07, 0.27 | 1.02, 0.39 | 1.02, 0.39 | 1.08, 0.28 |
/// | base64 | 0.66, 0.37 | 0.67, 0.35 | 0.81, 0.37 | 0.65, 0.36 | 0.64, 0.35 | 0.73, 0.34 |
///
/// No tokenizer of Claude is published since version 3, so these presets are not measured: the older one has the rates
/// of Claude 2. For Opus 4.7, measurements with Anthropic's counting endpoint, published in April 2026, found 1.2 to
/// 1.47 times the tokens of Opus 4.6 for English, German and French, 1.13 to 1.39 times for code, and 1 to 1.07 times
/// for digits and other scripts. The rates of words and punctuation are raised accordingly.
#[derive(Clone)]
pub struct Estimate {
    name: Arc<str>,
    costs: Costs,
    texts: Texts,
}

#[derive(Clone)]
enum Texts {
    Rates(TextRates),
    Counter(Arc<dyn TokenCounter>),
}

impl Estimate {
    /// Creates an estimate with this [name](TokenCounter::name), with these costs, and with a counter for the texts.
    ///
    /// ```
    /// use tower_chat_history::{
    ///     Message,
    ///     tokens::{Costs, Estimate, TokenCounter, per_text},
    /// };
    ///
    /// // The tokenizer of the model, and the frame of its chat template.
    /// let tokenizer = per_text("words", |text: &str| text.split_whitespace().count());
    /// let counter = Estimate::named("acme-1", Costs::new().message(6).call(20), tokenizer);
    /// assert_eq!(counter.count_message(&Message::user("one two")), 6 + 2);
    /// ```
    pub fn named(name: impl Into<Arc<str>>, costs: Costs, texts: impl TokenCounter) -> Self {
        Self { name: name.into(), costs, texts: Texts::Counter(Arc::new(texts)) }
    }

    fn of(preset: &'static Preset) -> Self {
        Self { name: Arc::clone(&preset.name), costs: preset.costs, texts: Texts::Rates(preset.rates) }
    }

    /// Creates the estimate for Claude models since Opus 4.7, Sonnet 5, Haiku 5 and Fable 5.
    #[must_use]
    pub fn anthropic() -> Self {
        Self::of(&presets::ANTHROPIC)
    }

    /// Creates the estimate for Claude models before Opus 4.7, Sonnet 5 and Haiku 5.
    #[must_use]
    pub fn anthropic_older() -> Self {
        Self::of(&presets::ANTHROPIC_OLDER)
    }

    /// Creates the estimate for Gemini models since Gemini 3.
    #[must_use]
    pub fn gemini() -> Self {
        Self::of(&presets::GEMINI)
    }

    /// Creates the estimate for Gemini models before Gemini 3, and for Gemma.
    #[must_use]
    pub fn gemini_older() -> Self {
        Self::of(&presets::GEMINI_OLDER)
    }

    /// Creates an estimate for OpenAI's models, for programs without a tokenizer. It is closer than
    /// [`ByteEstimate`](super::ByteEstimate).
    #[must_use]
    pub fn openai() -> Self {
        Self::of(&presets::OPENAI)
    }

    /// Creates the estimate for DeepSeek models.
    #[must_use]
    pub fn deepseek() -> Self {
        Self::of(&presets::DEEPSEEK)
    }

    /// Creates the estimate for Llama models since Llama 3.
    #[must_use]
    pub fn llama() -> Self {
        Self::of(&presets::LLAMA)
    }

    /// Creates the estimate for Mistral models.
    #[must_use]
    pub fn mistral() -> Self {
        Self::of(&presets::MISTRAL)
    }

    /// Creates the estimate for Qwen models.
    #[must_use]
    pub fn qwen() -> Self {
        Self::of(&presets::QWEN)
    }
}

impl TokenCounter for Estimate {
    fn name(&self) -> Option<&Arc<str>> {
        Some(&self.name)
    }

    fn count_text(&self, text: &str) -> u32 {
        match &self.texts {
            Texts::Rates(rates) => rates.count(text),
            Texts::Counter(counter) => counter.count_text(text),
        }
    }

    fn count_message(&self, message: &Message) -> u32 {
        framing::message(self, &self.costs, message)
    }

    fn reply_priming(&self) -> u32 {
        self.costs.reply_priming
    }

    fn tools_priming(&self) -> u32 {
        self.costs.tools_priming
    }

    fn is_ready(&self) -> bool {
        match &self.texts {
            Texts::Rates(_) => true,
            Texts::Counter(counter) => counter.is_ready(),
        }
    }

    fn is_estimate(&self) -> bool {
        true
    }
}

impl fmt::Debug for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Estimate").field(&self.name).finish()
    }
}

/// The beginnings of the names of Claude models with the tokenizer and the image sizes before Opus 4.7.
const OLDER_CLAUDE: [&str; 13] = [
    "claude-1",
    "claude-2",
    "claude-3",
    "claude-instant",
    "claude-v",
    "claude-haiku-4",
    "claude-sonnet-4",
    "claude-opus-4-0",
    "claude-opus-4-1",
    // A date: `claude-opus-4-20250514`.
    "claude-opus-4-2",
    "claude-opus-4-5",
    "claude-opus-4-6",
    "claude-opus-4@",
];

const MISTRAL: [&str; 9] = [
    "mistral",
    "open-mistral",
    "ministral",
    "magistral",
    "codestral",
    "devstral",
    "pixtral",
    "mixtral",
    "open-mixtral",
];

/// Llama 2 has another tokenizer.
const LLAMA: [&str; 6] = ["llama-3", "llama-4", "llama3", "llama4", "meta-llama-3", "meta-llama-4"];

impl Estimate {
    /// Returns the preset of a model by its name, with the prefixes of gateways and clouds that the [table of
    /// models](crate::context::budget#table-of-models) ignores. Names of local servers (`llama3.1:8b`) are known, too.
    ///
    /// Returns `None` for OpenAI's models, which have public tokenizers, and for models of unknown families.
    #[must_use]
    pub fn for_model(model: &str) -> Option<Self> {
        if is_openai(model) {
            return None;
        }
        normalized_names(model).find_map(|name| of_name(&name))
    }
}

/// Returns `true` for names of OpenAI's models in their usual form, without an allocation: `gpt-5`, `openai/gpt-5`,
/// `o3`.
fn is_openai(model: &str) -> bool {
    let name = model.strip_prefix("openai/").unwrap_or(model);
    let begins = name.starts_with("gpt-") || matches!(name.as_bytes(), [b'o', b'0'..=b'9', ..]);
    begins && !name.contains('/')
}

fn of_name(name: &str) -> Option<Estimate> {
    if name.starts_with("claude-") || name == "claude" {
        let is_older = begins_with_any(name, &OLDER_CLAUDE) || name == "claude-opus-4";
        return Some(if is_older { Estimate::anthropic_older() } else { Estimate::anthropic() });
    }

    if name.starts_with("gemini-") {
        let is_older = begins_with_any(name, &["gemini-1", "gemini-2", "gemini-pro", "gemini-ultra"]);
        return Some(if is_older { Estimate::gemini_older() } else { Estimate::gemini() });
    }

    // Distilled models are other models under DeepSeek's name, with the tokenizers of those.
    if name.starts_with("deepseek") {
        return Some(match name {
            name if name.contains("distill-llama") => Estimate::llama(),
            name if name.contains("distill-qwen") => Estimate::qwen(),
            _ => Estimate::deepseek(),
        });
    }

    if name.starts_with("gemma") {
        Some(Estimate::gemini_older())
    } else if begins_with_any(name, &MISTRAL) {
        Some(Estimate::mistral())
    } else if begins_with_any(name, &["qwen", "qwq", "qvq"]) {
        Some(Estimate::qwen())
    } else if begins_with_any(name, &LLAMA) {
        Some(Estimate::llama())
    } else {
        None
    }
}

fn begins_with_any(name: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|beginning| name.starts_with(beginning))
}
