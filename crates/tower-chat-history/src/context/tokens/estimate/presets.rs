//! The presets: costs and rates by family of models.
//!
//! The rates of texts were fitted to counts of published tokenizers for prose, code, JSON and software messages in 14
//! languages, and rounded up. Stored counts are found by the preset's name, so a change of the numbers needs another
//! name.

use std::sync::{Arc, LazyLock};

use super::{Costs, DocumentCost, ImageCost, MediaCost, text::TextRates};

pub(super) struct Preset {
    pub(super) name: LazyLock<Arc<str>>,
    pub(super) costs: Costs,
    pub(super) rates: TextRates,
}

/// Rates of o200k_base.
pub(super) static OPENAI: Preset = Preset {
    name: LazyLock::new(|| "openai-estimate".into()),
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
const ANTHROPIC_OLDER_RATES: TextRates = TextRates {
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
};

pub(super) static ANTHROPIC_OLDER: Preset = Preset {
    name: LazyLock::new(|| "anthropic-older-estimate".into()),
    costs: ANTHROPIC_COSTS
        .image(ImageCost::Squares { side: 28, longest_side: 1_568, max_tokens: 1_568 }, 1_568)
        .tools_priming(346),
    rates: ANTHROPIC_OLDER_RATES,
};

/// The rates of the older models, with those of words raised by the published measurements.
pub(super) static ANTHROPIC: Preset = Preset {
    name: LazyLock::new(|| "anthropic-estimate".into()),
    costs: ANTHROPIC_COSTS
        .image(ImageCost::Squares { side: 28, longest_side: 2_576, max_tokens: 4_784 }, 4_784)
        .document(DocumentCost::Pages(4_500))
        .tools_priming(406),
    rates: TextRates { word: 155, long: 40, punctuation: 80, space: 30, ..ANTHROPIC_OLDER_RATES },
};

const GEMINI_COSTS: Costs = Costs::new()
    .call(8)
    .result(8)
    .audio(MediaCost { unknown: 1_920, bytes_per_token: Some(500) })
    .video(MediaCost { unknown: 6_120, bytes_per_token: Some(1_000) });

/// Rates of the tokenizer of the first Gemma, which is said to be that of Gemini.
const GEMINI_RATES: TextRates = TextRates {
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
};

pub(super) static GEMINI: Preset = Preset {
    name: LazyLock::new(|| "gemini-estimate".into()),
    costs: GEMINI_COSTS.image(ImageCost::Fixed(1_120), 1_120).document(DocumentCost::Pages(1_120)),
    rates: GEMINI_RATES,
};

pub(super) static GEMINI_OLDER: Preset = Preset {
    name: LazyLock::new(|| "gemini-older-estimate".into()),
    costs: GEMINI_COSTS
        .image(ImageCost::Tiles { side: 768, small: 384, longest_side: 3_072, tokens: 258, unknown: 1_548 }, 1_548)
        .video(MediaCost { unknown: 17_700, bytes_per_token: Some(1_000) })
        .document(DocumentCost::Pages(1_120)),
    rates: GEMINI_RATES,
};

/// Rates of the tokenizer of DeepSeek V3.
pub(super) static DEEPSEEK: Preset = Preset {
    name: LazyLock::new(|| "deepseek-estimate".into()),
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
pub(super) static LLAMA: Preset = Preset {
    name: LazyLock::new(|| "llama-estimate".into()),
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
pub(super) static QWEN: Preset = Preset {
    name: LazyLock::new(|| "qwen-estimate".into()),
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
pub(super) static MISTRAL: Preset = Preset {
    name: LazyLock::new(|| "mistral-estimate".into()),
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
