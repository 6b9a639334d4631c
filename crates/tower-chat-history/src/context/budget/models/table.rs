//! The limits of models, by maker.
//!
//! Unless a comment names another source, the numbers are from the open database models.dev
//! (github.com/anomalyco/models.dev), which cites the makers' own pages. They are from its state of 2026-07-02, and for
//! later models from their entries up to 2026-10-07. The context windows are those of the makers' own services. A model
//! is missing if its limits could not be looked up.

use super::ModelLimits;

/// Names, or beginnings of names, and their limits.
type Models = &'static [(&'static str, ModelLimits)];

pub(super) const ALL: [Models; 13] =
    [OPENAI, ANTHROPIC, GOOGLE, MISTRAL, DEEPSEEK, XAI, META, ALIBABA, COHERE, AMAZON, MOONSHOT, ZHIPU, MINIMAX];

const fn of(context: u32, output: u32) -> ModelLimits {
    ModelLimits::new(context).output(output)
}

const MIB: u32 = 1_048_576;

/// The source for the older models is OpenAI's model pages of 2025.
const OPENAI: Models = &[
    ("chatgpt-4o", of(128_000, 16_384)),
    ("codex-mini", of(200_000, 100_000)),
    ("gpt-3.5-turbo", of(16_385, 4_096)),
    ("gpt-3.5-turbo-0301", of(4_096, 4_096)),
    ("gpt-3.5-turbo-0613", of(4_096, 4_096)),
    ("gpt-3.5-turbo-instruct", of(4_096, 4_096)),
    // Azure's name of gpt-3.5-turbo.
    ("gpt-35-turbo", of(16_385, 4_096)),
    ("gpt-4", of(8_192, 8_192)),
    ("gpt-4-0125-preview", of(128_000, 4_096)),
    ("gpt-4-1106", of(128_000, 4_096)),
    ("gpt-4-32k", of(32_768, 32_768)),
    ("gpt-4-turbo", of(128_000, 4_096)),
    ("gpt-4-vision", of(128_000, 4_096)),
    ("gpt-4.1", of(1_047_576, 32_768)),
    ("gpt-4.5", of(128_000, 16_384)),
    ("gpt-4o", of(128_000, 16_384)),
    ("gpt-4o-2024-05-13", of(128_000, 4_096)),
    ("gpt-5", of(400_000, 128_000).input(272_000)),
    // The source is OpenAI's own page. models.dev has the numbers of gpt-5.
    ("gpt-5-chat", of(128_000, 16_384)),
    ("gpt-5.1-chat", of(128_000, 16_384)),
    ("gpt-5.2-chat", of(128_000, 16_384)),
    ("gpt-5.3-chat", of(128_000, 16_384)),
    ("gpt-5.4", of(1_050_000, 128_000).input(922_000)),
    ("gpt-5.4-mini", of(400_000, 128_000).input(272_000)),
    ("gpt-5.4-nano", of(400_000, 128_000).input(272_000)),
    ("gpt-5.5", of(1_050_000, 128_000).input(922_000)),
    ("gpt-5.5-instant", of(400_000, 128_000)),
    ("gpt-5.6", of(1_050_000, 128_000).input(922_000)),
    ("gpt-6-astra", of(1_050_000, 128_000).input(922_000)),
    ("gpt-6-sol", of(1_050_000, 128_000).input(922_000)),
    ("gpt-oss", of(131_072, 131_072)),
    ("o1", of(200_000, 100_000)),
    ("o1-mini", of(128_000, 65_536)),
    ("o1-preview", of(128_000, 32_768)),
    ("o3", of(200_000, 100_000)),
    ("o4-mini", of(200_000, 100_000)),
];

const ANTHROPIC: Models = &[
    ("claude-3-haiku", of(200_000, 4_096)),
    ("claude-3-opus", of(200_000, 4_096)),
    ("claude-3-sonnet", of(200_000, 4_096)),
    ("claude-3-5-haiku", of(200_000, 8_192)),
    ("claude-3-5-sonnet", of(200_000, 8_192)),
    ("claude-3-7-sonnet", of(200_000, 64_000)),
    ("claude-opus-4", of(200_000, 32_000)),
    ("claude-opus-4-5", of(200_000, 64_000)),
    ("claude-opus-4-6", of(1_000_000, 128_000)),
    ("claude-opus-4-7", of(1_000_000, 128_000)),
    ("claude-opus-4-8", of(1_000_000, 128_000)),
    ("claude-opus-5", of(1_000_000, 128_000)),
    ("claude-sonnet-4", of(200_000, 64_000)),
    ("claude-sonnet-4-6", of(1_000_000, 64_000)),
    ("claude-sonnet-5", of(1_000_000, 128_000)),
    ("claude-haiku-4-5", of(200_000, 64_000)),
    ("claude-haiku-5-5", of(1_000_000, 128_000)),
    ("claude-fable-5", of(1_000_000, 128_000)),
];

const GOOGLE: Models = &[
    ("gemini-2.0-flash", of(MIB, 8_192)),
    ("gemini-2.5-flash", of(MIB, 65_536)),
    ("gemini-2.5-flash-image", of(32_768, 32_768)),
    ("gemini-2.5-flash-preview-tts", of(24_576, 16_384).input(8_192)),
    ("gemini-2.5-pro", of(MIB, 65_536)),
    ("gemini-2.5-pro-preview-tts", of(24_576, 16_384).input(8_192)),
    ("gemini-3-flash", of(MIB, 65_536)),
    ("gemini-3-pro", of(MIB, 65_536)),
    ("gemini-3-pro-image", of(65_536, 32_768)),
    ("gemini-3.1-flash-lite", of(MIB, 65_536)),
    ("gemini-3.1-flash-image", of(65_536, 65_536)),
    ("gemini-3.1-pro", of(MIB, 65_536)),
    ("gemini-3.5-flash", of(MIB, 65_536)),
    ("gemini-3.8-flash", of(MIB, 65_536)),
    ("gemini-flash-latest", of(MIB, 65_536)),
    ("gemini-flash-lite-latest", of(MIB, 65_536)),
];

/// Only names that have a date or end in `latest`, because local servers have models with the same names without these
/// endings.
const MISTRAL: Models = &[
    ("codestral-latest", of(256_000, 4_096)),
    ("magistral-medium-latest", of(128_000, 16_384)),
    ("ministral-3b-latest", of(128_000, 128_000)),
    ("ministral-8b-latest", of(128_000, 128_000)),
    ("mistral-large-2411", of(131_072, 16_384)),
    ("mistral-large-2512", of(262_144, 262_144)),
    ("mistral-large-latest", of(262_144, 262_144)),
    ("mistral-medium-2505", of(131_072, 131_072)),
    ("mistral-medium-2508", of(262_144, 262_144)),
    ("mistral-medium-2604", of(262_144, 262_144)),
    ("mistral-medium-latest", of(262_144, 262_144)),
    ("mistral-small-2506", of(128_000, 16_384)),
    ("mistral-small-2603", of(256_000, 256_000)),
    ("mistral-small-latest", of(256_000, 256_000)),
    ("open-mistral-nemo", of(128_000, 128_000)),
    ("pixtral-large-latest", of(128_000, 128_000)),
];

/// The names that DeepSeek's own service uses.
const DEEPSEEK: Models = &[
    ("deepseek-chat", of(1_000_000, 384_000)),
    ("deepseek-reasoner", of(1_000_000, 384_000)),
    ("deepseek-v4-flash", of(1_000_000, 384_000)),
    ("deepseek-v4-pro", of(1_000_000, 384_000)),
    ("deepseek-v4.1-flash", of(1_000_000, 384_000)),
];

const XAI: Models = &[
    ("grok-3", of(131_072, 131_072)),
    ("grok-4", of(256_000, 256_000)),
    ("grok-4-fast", of(2_000_000, 64_000)),
    ("grok-4.20", of(1_000_000, 30_000)),
    ("grok-4.3", of(1_000_000, 30_000)),
    ("grok-4.5", of(500_000, 500_000)),
    ("grok-4.7", of(500_000, 500_000)),
];

/// The names that Meta's own service uses, and those of Amazon Bedrock without their punctuation.
const META: Models = &[
    ("llama-3.1", of(128_000, 4_096)),
    ("llama-3.3", of(128_000, 4_096)),
    ("llama-4-maverick", of(128_000, 4_096)),
    ("llama-4-scout", of(128_000, 4_096)),
    ("llama3-1", of(128_000, 4_096)),
    ("llama3-3", of(128_000, 4_096)),
    ("llama4-maverick", of(1_000_000, 16_384)),
    ("llama4-scout", of(3_500_000, 16_384)),
    ("muse-spark-1.3", of(MIB, 131_072)),
];

/// The names that Alibaba's own service uses. The context windows of open Qwen models depend on the service.
const ALIBABA: Models = &[
    ("qwen-flash", of(1_000_000, 32_768)),
    ("qwen-max", of(32_768, 8_192)),
    ("qwen-plus", of(1_000_000, 32_768)),
    ("qwen-turbo", of(1_000_000, 16_384)),
    ("qwen-vl-max", of(131_072, 8_192)),
    ("qwen-vl-plus", of(131_072, 8_192)),
    ("qwen3-coder-flash", of(1_000_000, 65_536)),
    ("qwen3-coder-plus", of(MIB, 65_536)),
    ("qwen3-max", of(262_144, 65_536)),
    ("qwen3-vl-plus", of(262_144, 32_768)),
    ("qwen3.5-plus", of(1_000_000, 65_536)),
    ("qwen3.6-flash", of(1_000_000, 65_536)),
    ("qwen3.6-max", of(262_144, 65_536)),
    ("qwen3.6-plus", of(1_000_000, 65_536)),
    ("qwen3.7-max", of(1_000_000, 65_536)),
    ("qwen3.7-plus", of(1_000_000, 64_000)),
    ("qwq-plus", of(131_072, 8_192)),
];

const COHERE: Models = &[
    ("command-a-03-2025", of(256_000, 8_000)),
    ("command-a-plus-05-2026", of(128_000, 64_000)),
    ("command-a-reasoning-08-2025", of(256_000, 32_000)),
    ("command-a-translate-08-2025", of(8_000, 8_000)),
    ("command-a-vision-07-2025", of(128_000, 8_000)),
    ("command-r-08-2024", of(128_000, 4_000)),
    ("command-r-plus-08-2024", of(128_000, 4_000)),
    ("command-r7b-12-2024", of(128_000, 4_000)),
];

const AMAZON: Models = &[
    ("nova-2-lite", of(128_000, 4_096)),
    ("nova-lite", of(300_000, 8_192)),
    ("nova-micro", of(128_000, 8_192)),
    ("nova-pro", of(300_000, 8_192)),
];

const MOONSHOT: Models = &[
    ("kimi-k2-0711", of(131_072, 16_384)),
    ("kimi-k2-0905", of(262_144, 262_144)),
    ("kimi-k2-thinking", of(262_144, 262_144)),
    ("kimi-k2-turbo", of(262_144, 262_144)),
    ("kimi-k2.5", of(262_144, 262_144)),
    ("kimi-k2.6", of(262_144, 262_144)),
    ("kimi-k2.7", of(262_144, 262_144)),
    ("kimi-k3", of(MIB, 262_144)),
];

const ZHIPU: Models = &[
    ("glm-4.5", of(131_072, 98_304)),
    ("glm-4.5v", of(64_000, 16_384)),
    ("glm-4.6", of(204_800, 131_072)),
    ("glm-4.6v", of(128_000, 32_768)),
    ("glm-4.7", of(200_000, 131_072)),
    ("glm-5", of(200_000, 131_072)),
    ("glm-5v-turbo", of(200_000, 131_072)),
    ("glm-5.1", of(200_000, 131_072)),
    ("glm-5.2", of(1_000_000, 131_072)),
    ("glm-5.3", of(1_000_000, 131_072)),
];

const MINIMAX: Models = &[
    ("minimax-m2", of(196_608, 128_000)),
    ("minimax-m2.1", of(204_800, 131_072)),
    ("minimax-m2.5", of(204_800, 131_072)),
    ("minimax-m2.7", of(204_800, 131_072)),
    // models.dev has 1,000,000 for one of its entries.
    ("minimax-m3", of(512_000, 128_000)),
];
