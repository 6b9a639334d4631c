//! The family of a model, by its name.

use super::Estimate;
use crate::context::budget::normalized_names;

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

impl Estimate {
    /// Returns the preset of a model by its name, with the prefixes of gateways and clouds that
    /// [`ModelTable`](crate::context::budget::ModelTable) ignores. Names of local servers (`llama3.1:8b`) are known, too.
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
    let begins = |beginning: &str| name.starts_with(beginning);
    let is_any = |beginnings: &[&str]| beginnings.iter().any(|beginning| begins(beginning));
    if begins("claude-") || name == "claude" {
        let is_older = is_any(&OLDER_CLAUDE) || name == "claude-opus-4";
        return Some(if is_older { Estimate::anthropic_older() } else { Estimate::anthropic() });
    }
    if begins("gemini-") {
        let is_older = is_any(&["gemini-1", "gemini-2", "gemini-pro", "gemini-ultra"]);
        return Some(if is_older { Estimate::gemini_older() } else { Estimate::gemini() });
    }
    // Distilled models are other models under DeepSeek's name, with the tokenizers of those.
    if begins("deepseek") {
        return Some(match name {
            name if name.contains("distill-llama") => Estimate::llama(),
            name if name.contains("distill-qwen") => Estimate::qwen(),
            _ => Estimate::deepseek(),
        });
    }
    let families: [(&[&str], fn() -> Estimate); 4] = [
        (&["gemma"], Estimate::gemini_older),
        (&MISTRAL, Estimate::mistral),
        (&["qwen", "qwq", "qvq"], Estimate::qwen),
        // Llama 2 has another tokenizer.
        (&["llama-3", "llama-4", "llama3", "llama4", "meta-llama-3", "meta-llama-4"], Estimate::llama),
    ];
    families.into_iter().find(|(beginnings, _)| is_any(beginnings)).map(|(_, estimate)| estimate())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::tokens::TokenCounter as _;

    #[test]
    fn models_are_found_by_name() {
        for (expected, models) in [
            (
                "anthropic-estimate",
                &[
                    "claude-opus-4-7",
                    "claude-opus-4.8",
                    "claude-opus-5-5",
                    "claude-sonnet-5",
                    "claude-haiku-5-5",
                    "anthropic/claude-fable-5.1",
                    "us.anthropic.claude-opus-4-7-v1:0",
                    "claude-latest",
                ][..],
            ),
            (
                "anthropic-older-estimate",
                &[
                    "claude-opus-4",
                    "claude-opus-4@20250514",
                    "claude-opus-4-20250514",
                    "claude-opus-4-6",
                    "anthropic/claude-sonnet-4.5",
                    "claude-haiku-4-5-20251001",
                    "claude-3-5-sonnet-latest",
                    "arn:aws:bedrock:us-east-1:1:inference-profile/global.anthropic.claude-opus-4-6-v1",
                    "anthropic.claude-v2:1",
                    "claude-instant-1.2",
                ],
            ),
            ("gemini-estimate", &["gemini-3-pro", "models/gemini-3.5-flash", "google/gemini-flash-latest"]),
            ("gemini-older-estimate", &["gemini-2.5-pro", "models/gemini-2.0-flash", "gemma3", "gemma-3-27b-it"]),
            ("deepseek-estimate", &["deepseek-chat", "deepseek-v4-pro", "deepseek/deepseek-r1:free", "deepseek-r1:7b"]),
            (
                "llama-estimate",
                &[
                    "meta-llama/Llama-3.3-70B-Instruct",
                    "llama3.1:8b",
                    "meta.llama3-1-70b-instruct-v1:0",
                    "meta-llama/Meta-Llama-3-8B",
                    "deepseek-ai/DeepSeek-R1-Distill-Llama-70B",
                ],
            ),
            (
                "mistral-estimate",
                &["mistral-large-latest", "mistral-nemo", "open-mixtral-8x7b", "mistralai/Devstral-Small-2507"],
            ),
            ("qwen-estimate", &["qwen3:0.6b", "Qwen/Qwen3-32B", "qwen-max", "qwq-plus", "deepseek-r1-distill-qwen-7b"]),
        ] {
            for model in models {
                let name = Estimate::for_model(model).and_then(|estimate| estimate.name().cloned());
                assert_eq!(name.as_deref(), Some(expected), "{model}");
            }
        }
    }

    #[test]
    fn other_models_have_no_preset() {
        for model in [
            "",
            "gpt-4o",
            "openai/gpt-5.6",
            "o3",
            "o4-mini",
            "GPT-4o",
            "gpt-oss:20b",
            "grok-4",
            "llama2:7b",
            "my-claude-proxy",
            "/",
        ] {
            assert!(Estimate::for_model(model).is_none(), "{model}");
        }
    }
}
