//! The presets: costs and rates by family of models.
//!
//! The rates of texts were fitted to counts of published tokenizers for prose, code, JSON and software messages in 14
//! languages, and rounded up. Stored counts are found by the preset's name, so a change of the numbers needs another
//! name.

use super::{Costs, DocumentCost, ImageCost, MediaCost, text::TextRates};

pub(super) struct Preset {
    pub(super) name: &'static str,
    pub(super) costs: Costs,
    pub(super) rates: TextRates,
}

/// Rates of o200k_base.
pub(super) const OPENAI: Preset = Preset {
    name: "openai-estimate",
    costs: Costs::new(),
    rates: TextRates {
        word: 105,
        long: 30,
        digit: 65,
        punctuation: 55,
        space: 20,
        accented: 60,
        two_bytes: 45,
        ideograph: 100,
        hangul: 90,
        other: 60,
    },
};

const ANTHROPIC_COSTS: Costs = Costs::new().call(12).result(10).document(DocumentCost::Pages(3_000)).sealed_bytes(5);

/// Rates of the tokenizer that Anthropic published for Claude 2.
pub(super) const ANTHROPIC_OLDER: Preset = Preset {
    name: "anthropic-older-estimate",
    costs: ANTHROPIC_COSTS
        .image(ImageCost::Squares { side: 28, longest_side: 1_568, max_tokens: 1_568 }, 1_568)
        .tools_priming(346),
    rates: TextRates {
        word: 115,
        long: 30,
        digit: 55,
        punctuation: 65,
        space: 25,
        accented: 220,
        two_bytes: 90,
        ideograph: 110,
        hangul: 140,
        other: 140,
    },
};

/// The rates of the older models, with those of words raised by the published measurements.
pub(super) const ANTHROPIC: Preset = Preset {
    name: "anthropic-estimate",
    costs: ANTHROPIC_COSTS
        .image(ImageCost::Squares { side: 28, longest_side: 2_576, max_tokens: 4_784 }, 4_784)
        .document(DocumentCost::Pages(4_500))
        .tools_priming(406),
    rates: TextRates { word: 155, long: 40, punctuation: 80, space: 30, ..ANTHROPIC_OLDER.rates },
};

const GEMINI_COSTS: Costs = Costs::new()
    .call(8)
    .result(8)
    .audio(MediaCost { unknown: 1_920, bytes_per_token: Some(500) })
    .video(MediaCost { unknown: 6_120, bytes_per_token: Some(1_000) });

/// Rates of the tokenizer of the first Gemma, which is said to be that of Gemini.
pub(super) const GEMINI: Preset = Preset {
    name: "gemini-estimate",
    costs: GEMINI_COSTS.image(ImageCost::Fixed(1_120), 1_120).document(DocumentCost::Pages(1_120)),
    rates: TextRates {
        word: 110,
        long: 25,
        digit: 120,
        punctuation: 60,
        space: 35,
        accented: 45,
        two_bytes: 45,
        ideograph: 80,
        hangul: 95,
        other: 55,
    },
};

pub(super) const GEMINI_OLDER: Preset = Preset {
    name: "gemini-older-estimate",
    costs: GEMINI_COSTS
        .image(ImageCost::Tiles { side: 768, small: 384, tokens: 258, unknown: 1_548 }, 1_548)
        .video(MediaCost { unknown: 17_700, bytes_per_token: Some(1_000) })
        .document(DocumentCost::Pages(1_120)),
    rates: GEMINI.rates,
};

/// Rates of the tokenizer of DeepSeek V3.
pub(super) const DEEPSEEK: Preset = Preset {
    name: "deepseek-estimate",
    costs: Costs::new().call(12).result(4),
    rates: TextRates {
        word: 105,
        long: 45,
        digit: 65,
        punctuation: 60,
        space: 30,
        accented: 110,
        two_bytes: 50,
        ideograph: 80,
        hangul: 95,
        other: 80,
    },
};

/// Rates of the tokenizer of Llama 3.
pub(super) const LLAMA: Preset = Preset {
    name: "llama-estimate",
    costs: Costs::new().message(5).call(9).result(2),
    rates: TextRates {
        word: 105,
        long: 45,
        digit: 65,
        punctuation: 55,
        space: 20,
        accented: 55,
        two_bytes: 45,
        ideograph: 100,
        hangul: 95,
        other: 75,
    },
};

/// Rates of the tokenizer of Qwen 3.
pub(super) const QWEN: Preset = Preset {
    name: "qwen-estimate",
    costs: Costs::new().message(5).call(13).result(6).tools_priming(82),
    rates: TextRates {
        word: 105,
        long: 45,
        digit: 120,
        punctuation: 55,
        space: 20,
        accented: 60,
        two_bytes: 60,
        ideograph: 90,
        hangul: 100,
        other: 120,
    },
};

/// Mistral's tokenizers were not measured. The rates are the highest ones of the other open models.
pub(super) const MISTRAL: Preset = Preset {
    name: "mistral-estimate",
    costs: Costs::new().call(18).result(16),
    rates: TextRates {
        word: 110,
        long: 45,
        digit: 120,
        punctuation: 60,
        space: 35,
        accented: 110,
        two_bytes: 60,
        ideograph: 100,
        hangul: 100,
        other: 120,
    },
};
