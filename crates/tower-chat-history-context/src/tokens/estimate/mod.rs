//! Estimates for models whose tokenizer this crate does not have.

mod costs;
mod family;
mod media;
mod presets;
#[cfg(test)]
mod tests;
mod text;

use std::{fmt, sync::Arc};

use tower_chat_history_core::Message;

pub use self::costs::{Costs, DocumentCost, ImageCost, MediaCost};
use self::{presets::Preset, text::TextRates};
use super::{TokenCounter, framing};

/// An estimate of the tokens that a family of models counts: of texts, by their words, digits and characters, and of
/// the other parts of a message, by a table of [costs](Costs).
///
/// [`for_model`](Self::for_model) finds the preset of a model by its name. The engine of `tower-chat-history` uses it if
/// neither the options nor the integration have a counter.
///
/// ```
/// use tower_chat_history_context::tokens::{Estimate, TokenCounter};
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
/// The costs are from the providers' documentation as of November 2026, unless a column says otherwise. Texts have a
/// count of their own in each preset. All reasoning counts as text, also that of earlier turns: newer Claude models keep
/// it in the prompt. Older ones ignore it, and the count is then too high until a report
/// [corrects](crate::ContextBudget::calibrate) it.
///
/// | preset | models | message | call, result | with tools | image | document | audio, video |
/// |---|---|---|---|---|---|---|---|
/// | [`anthropic`](Self::anthropic) | Claude Opus 4.7 and later, Sonnet, Haiku and Fable 5 and later | 4 | 12, 10 | 530 | 28 × 28 pixels, at most 4,784 | 4,500 a page | as OpenAI |
/// | [`anthropic_older`](Self::anthropic_older) | earlier Claude models | 4 | 12, 10 | 346 | 28 × 28 pixels, at most 1,568 | 3,000 a page | as OpenAI |
/// | [`gemini`](Self::gemini) | Gemini 3 and later | 4 | 8, 8 | 0 | 1,120 | 1,120 a page | 1,920 and 6,120 a minute |
/// | [`gemini_older`](Self::gemini_older) | Gemini 2.5 and earlier, Gemma | 4 | 8, 8 | 0 | 258 for 768 × 768 pixels | 1,120 a page | 1,920 and 17,700 a minute |
/// | [`openai`](Self::openai) | none by default | 4 | 3, 0 | 0 | 85 or 1,445 | 2,000 | 600, 2,000 |
/// | [`deepseek`](Self::deepseek) | DeepSeek | 4 | 9, 5 | 0 | as OpenAI | as OpenAI | as OpenAI |
/// | [`llama`](Self::llama) | Llama 3 and later | 4 | 9, 2 | 0 | as OpenAI | as OpenAI | as OpenAI |
/// | [`mistral`](Self::mistral) | Mistral, Ministral, Magistral, Codestral, Devstral, Pixtral | 4 | 18, 16 | 0 | as OpenAI | as OpenAI | as OpenAI |
/// | [`qwen`](Self::qwen) | Qwen, QwQ | 4 | 14, 10 | 0 | as OpenAI | as OpenAI | as OpenAI |
///
/// Sources, and what they do not say:
///
/// - Anthropic's images: platform.claude.com, *Images and vision*: one token for each square of 28 pixels, and two limits
///   of size. Documents: *PDF support*, 1,500 to 3,000 tokens of text for a page, and the image of the page. Tools:
///   *Tool use*, a system prompt of 346 tokens for Claude 4. For later models the number is a guess, by the larger counts
///   of their tokenizer. Anthropic publishes no costs of messages, calls and results: these are guesses.
/// - Gemini's media: ai.google.dev, *Media resolution* (the defaults) and *Understand and count tokens* (tiles, 32 tokens
///   a second of audio, 263 of video, and 70 for a frame of Gemini 3). Data that a message contains has a token for every
///   500 bytes of audio and 1,000 bytes of video: these are guesses by usual bit rates.
/// - Calls and results of open models: their chat templates. Images depend on the server, which no table can know.
///
/// # Accuracy of texts
///
/// The estimate divided by the real count, for the tokenizers that are published. For comparison, the second number is
/// that of [`ByteEstimate`](super::ByteEstimate).
///
/// | text | o200k_base | Claude 2 | Gemma | DeepSeek V3 | Llama 3 | Qwen 3 |
/// |---|---|---|---|---|---|---|
/// | English prose | 1.10, 1.11 | 1.11, 1.02 | 1.04, 1.01 | 1.11, 1.07 | 1.10, 1.07 | 1.10, 1.07 |
/// | JSON of tool results | 0.97, 0.70 | 1.03, 0.68 | 1.00, 0.59 | 0.99, 0.66 | 1.00, 0.70 | 1.01, 0.60 |
/// | Rust | 1.10, 1.04 | 1.09, 0.91 | 1.07, 0.88 | 1.14, 0.96 | 1.13, 1.04 | 1.13, 1.03 |
/// | German | 1.02, 1.12 | 0.90, 0.84 | 1.01, 1.10 | 1.01, 0.95 | 0.97, 0.96 | 0.98, 0.96 |
/// | Russian | 1.55, 3.24 | 1.55, 1.72 | 1.54, 3.19 | 1.53, 2.87 | 1.35, 2.81 | 1.63, 2.64 |
/// | Greek | 1.02, 2.01 | 0.71, 0.77 | 1.00, 1.86 | 0.94, 1.65 | 1.00, 1.97 | 0.63, 0.98 |
/// | Arabic | 1.13, 2.45 | 0.81, 0.92 | 1.04, 2.23 | 1.07, 2.09 | 0.96, 2.09 | 1.25, 2.08 |
/// | Chinese | 1.15, 1.68 | 1.21, 1.59 | 1.13, 1.81 | 1.17, 1.93 | 1.13, 1.65 | 1.11, 1.75 |
/// | Japanese | 1.20, 1.73 | 1.09, 1.42 | 1.33, 2.11 | 1.11, 1.81 | 1.25, 1.79 | 1.14, 1.77 |
/// | Korean | 1.08, 1.78 | 1.06, 1.18 | 1.06, 1.55 | 1.06, 1.59 | 1.09, 1.70 | 1.08, 1.61 |
/// | UUIDs | 1.02, 0.39 | 0.93, 0.37 | 1.07, 0.27 | 1.02, 0.39 | 1.02, 0.39 | 1.08, 0.28 |
/// | base64 | 0.66, 0.37 | 0.67, 0.35 | 0.81, 0.37 | 0.65, 0.36 | 0.64, 0.35 | 0.73, 0.34 |
///
/// There is no public tokenizer for Claude since version 3. For the models since Opus 4.7, measurements with Anthropic's
/// counting endpoint (published by several authors in April 2026) found 1.2 to 1.47 times the tokens of Opus 4.6 for
/// prose and documents in English, 1.15 to 1.4 times for code, and the same for digits and for other scripts.
///
/// Base64 and other random text have up to 1.7 times as many tokens as estimated.
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
    /// use tower_chat_history_context::tokens::{Costs, Estimate, PerText, TokenCounter};
    ///
    /// // The tokenizer of the model, and the frame of its chat template.
    /// let tokenizer = PerText::named("words", |text: &str| text.split_whitespace().count());
    /// let counter = Estimate::named("acme-1", Costs::new().message(6).call(20), tokenizer);
    /// assert_eq!(counter.count_message(&"one two".into_user()), 6 + 2);
    /// # trait IntoUser { fn into_user(self) -> tower_chat_history_context::Message; }
    /// # impl IntoUser for &str {
    /// #     fn into_user(self) -> tower_chat_history_context::Message { tower_chat_history_context::Message::user(self) }
    /// # }
    /// ```
    pub fn named(name: impl Into<Arc<str>>, costs: Costs, texts: impl TokenCounter) -> Self {
        Self { name: name.into(), costs, texts: Texts::Counter(Arc::new(texts)) }
    }

    fn of(preset: &Preset) -> Self {
        Self { name: preset.name.into(), costs: preset.costs, texts: Texts::Rates(preset.rates) }
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
