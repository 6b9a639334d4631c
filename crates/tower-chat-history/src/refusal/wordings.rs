//! The wordings of refusals, each with its source and the month of it.

use super::meaning::Meaning;

/// Wordings of one meaning, each with its source.
pub(super) struct Group {
    pub(super) meaning: Meaning,
    pub(super) wordings: &'static [(&'static str, &'static str)],
}

/// Wordings of rates and quotas, which a shorter prompt does not help against.
pub(super) const RATES: &[(&str, &str)] = &[
    ("Request too large for ", "Groq (413), OpenAI (429); continue#10218, 2026-02"),
    ("Rate limit", "many, 2026-11"),
    ("Too many requests", "many, 2026-11"),
    ("Too many tokens, please wait", "Bedrock; opencode, 2026-09"),
    ("Throttling error", "Bedrock; pi-mono, 2026-03"),
    ("Tokens per minute limit exceeded", "Cerebras, 2026-09"),
    ("You exceeded your current quota", "OpenAI, Gemini, 2026-11"),
];

/// Texts that servers, gateways and clients put before the words of others.
pub(super) const PREFIXES: &[(&str, &str)] = &[
    ("Error code: {n} - ", "openai-python, 2026-11"),
    ("HTTP {n}: ", "gateways, 2026-09"),
    ("API Error: {n} ", "gateways, 2026-09"),
    ("{n}: ", "gateways, 2026-09"),
    ("{n} ", "gateways, 2026-09"),
    ("Bad Request: ", "Bedrock, 2025-06"),
    ("Error from provider: ", "opencode Zen, 2026-09"),
    ("Error from provider ({any}): ", "opencode Zen, 2026-09"),
    ("Upstream request failed: ", "opencode Zen, 2026-09"),
    ("Provider returned error: ", "OpenRouter, 2026-06"),
    ("[{name}] ", "opencode Zen, 2026-09"),
    ("Context Window Error - ", "LiteLLM, 2026-08"),
    ("<{n}> InternalError.Algo.InvalidParameter: ", "DashScope, 2026-08"),
    ("InternalError.Algo.InvalidParameter: ", "DashScope, 2026-08"),
    ("Invalid request: ", "Moonshot, 2026-09"),
    ("the request is invalid: ", "gateways, 2026-08"),
    ("invalid params, ", "MiniMax, 2026-06"),
    ("Invalid input argument for Model '{any}': ", "watsonx, 2024-12"),
    ("Input validation error: ", "text-generation-inference, 2026-01"),
    ("Template error: invalid operation: ", "text-generation-inference, 2026-01"),
    ("Error rendering prompt with jinja template: \"", "LM Studio; lmstudio-bug-tracker#842, 2025-08"),
    ("Unable to generate parser for this template. Automatic parser generation failed:", "llama.cpp#20733, 2026-06"),
    ("------------\nWhile executing {any}\nError: Jinja Exception: ", "llama.cpp#20733, 2026-06"),
    ("Jinja Exception: ", "llama.cpp, 2026-08"),
    ("An error occurred (ValidationException) when calling the {name} operation: ", "boto, 2026-06"),
    ("The model returned the following errors: ", "Bedrock, 2026-07"),
    ("Failed to deserialize the JSON body into the target type: ", "DeepSeek, 2026-09"),
    ("Codex error: ", "codex, 2026-09"),
];

/// Errors as Python prints them, up to the message or the body.
pub(super) const REPRS: &[&str] = &[
    "b'",
    "b\"",
    "{'error': {'message': \"",
    "{'error': {'message': '",
    "{'error': \"",
    "{'error': '",
    "{'object': 'error', 'message': \"",
    "{'object': 'error', 'message': '",
    "{'message': \"",
    "{'message': '",
];

pub(super) const GROUPS: &[Group] = &[
    Group {
        meaning: Meaning::TooLong,
        wordings: &[
            (
                "This model's maximum context length is {limit} tokens. However, your messages resulted in {prompt} tokens",
                "OpenAI; wtm2#579, 2024-11",
            ),
            (
                "This model's maximum context length is {limit} tokens. However, you requested {n} tokens ({prompt} in the messages",
                "OpenAI, DeepSeek, vllm#20409, 2025-07",
            ),
            (
                "This model's maximum context length is {limit} tokens. However, your request has {prompt} input tokens",
                "vLLM 0.10, 2025-09",
            ),
            // The size that newer versions of vLLM name is no more than the limit and one: they stop to count there.
            ("This model's maximum context length is {limit} tokens", "vLLM, Bedrock, 2026-11"),
            (
                "'max_tokens' or 'max_completion_tokens' is too large: {n}. This model's maximum context length is {limit} tokens and your request has {prompt} input tokens",
                "vLLM 0.10, 2025-09",
            ),
            (
                "You passed {n} input tokens and requested {n} output tokens. However, the model's context length is only {limit} tokens",
                "vLLM 0.15, renderers/params.py, 2026-02",
            ),
            (
                "You passed {n} input characters and requested {n} output tokens. However, the model's context length is only {limit} tokens",
                "vLLM 0.15, renderers/params.py, 2026-02",
            ),
            (
                "The decoder prompt (length {prompt}) is longer than the maximum model length of {limit}",
                "vLLM engine, 2025-09",
            ),
            ("Prompt length of {prompt} is longer than the maximum model length of {limit}", "vLLM engine, 2025-02"),
            (
                "The input ({prompt} tokens) is longer than the model's context length ({limit} tokens)",
                "SGLang, Together; pi-mono, 2026-03",
            ),
            (
                "Requested token count exceeds the model's maximum context length of {limit} tokens. You requested a total of {n} tokens: {prompt} tokens",
                "SGLang, tokenizer_manager.py, 2026-06",
            ),
            ("Requested token count exceeds the model's maximum context length of {limit} tokens", "LiteLLM, 2026-03"),
            (
                "Input length ({prompt} tokens) exceeds the maximum allowed length ({limit} tokens)",
                "SGLang, managers/utils.py, 2026-06",
            ),
            (
                "Input length ({prompt} tokens) exceeds the model's maximum context length ({limit} tokens)",
                "Ollama, mlxrunner/pipeline.go, 2026-08",
            ),
            ("Input length ({prompt}) exceeds model's maximum context length ({limit})", "opencode, 2026-09"),
            (
                "Input length {prompt} exceeds the maximum allowed input length of {limit} tokens",
                "Poolside; opencode, 2026-09",
            ),
            ("Multimodal prompt is too long", "SGLang, scheduler.py, 2026-06"),
            (
                "`inputs` tokens + `max_new_tokens` must be <= {limit}. Given: {prompt} `inputs` tokens",
                "text-generation-inference, validation.rs, 2026-01",
            ),
            (
                "`inputs` must have less than {limit} tokens. Given: {prompt}",
                "text-generation-inference, validation.rs, 2026-01",
            ),
            (
                "request ({prompt} tokens) exceeds the available context size ({limit} tokens)",
                "llama.cpp, server-context.cpp, 2026-09",
            ),
            ("the request exceeds the available context size", "llama.cpp, 2025-12"),
            ("Context size has been exceeded", "llama.cpp, LM Studio, 2026-06"),
            ("the prompt is longer than the context length currently available", "Ollama, llama_server.go, 2026-08"),
            ("the input length exceeds the context length", "Ollama, routes.go, 2026-08"),
            ("prompt too long; exceeded max context length", "Ollama cloud; opencode, 2026-09"),
            ("prompt too long; exceeded context length", "Ollama cloud; opencode, 2026-09"),
            (
                "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: {prompt} >= n_ctx: {limit})",
                "LM Studio, 2026-06",
            ),
            (
                "The number of tokens to keep from the initial prompt is greater than the context length",
                "LM Studio, 2026-03",
            ),
            (
                "Trying to keep the first {prompt} tokens when context the overflows. However, the model is loaded with context length of only {limit} tokens",
                "LM Studio, 2025-08",
            ),
            ("Prompt has {prompt} tokens, but the configured context size is {limit} tokens", "DS4; opencode, 2026-09"),
            ("prompt is too long: {prompt} tokens > {limit} maximum", "Anthropic; pi-mono, 2026-03"),
            ("prompt is too long", "Anthropic, 2026-03"),
            (
                "input length and `max_tokens` exceed context limit: {prompt} + {n} > {limit}",
                "Anthropic; openclaw, 2026-04",
            ),
            ("input length and max_tokens exceed context limit", "Anthropic, 2026-04"),
            ("Input is too long for requested model", "Bedrock; pi-mono, 2026-03"),
            (
                "Too many input tokens. Max input tokens: {limit}, request input token count: {prompt}",
                "Bedrock, 2025-06",
            ),
            ("Malformed input request: expected maxLength: {n}, actual: {n}", "Bedrock, 2025-06"),
            (
                "The input token count ({prompt}) exceeds the maximum number of tokens allowed ({limit})",
                "Gemini; pi-mono, 2026-03",
            ),
            ("The input token count exceeds the maximum number of tokens allowed ({limit})", "Gemini, 2026-06"),
            ("The input token count exceeds the maximum number of tokens allowed {limit}", "Gemini, 2026-06"),
            (
                "Unable to submit request because the input token count is {prompt} but model only supports up to {limit}",
                "Vertex AI, 2025-06",
            ),
            (
                "Prompt contains {prompt} tokens and {n} draft tokens, too large for model with {limit} maximum context length",
                "Mistral, 2025-06",
            ),
            (
                "Prompt contains {prompt} tokens, too large for model with {limit} maximum context length",
                "Mistral; pi-mono, 2026-03",
            ),
            (
                "Please reduce the length of the messages or completion. Current length is {prompt} while limit is {limit}",
                "Cerebras; LiteLLM, 2026-08",
            ),
            ("Please reduce the length of the messages", "Groq; pi-mono, 2026-03"),
            (
                "This model's maximum prompt length is {limit} but the request contains {prompt} tokens",
                "xAI; pi-mono, 2026-03",
            ),
            (
                "This endpoint's maximum context length is {limit} tokens. However, you requested about {n} tokens ({prompt} of text input",
                "OpenRouter, 2026-03",
            ),
            ("This endpoint's maximum context length is {limit} tokens", "OpenRouter; pi-mono, 2026-03"),
            ("The prompt is too long: {prompt}, model maximum context length: {limit}", "Fireworks, 2025-09"),
            ("too many tokens: size limit exceeded by", "Cohere; letta, 2025-06"),
            ("Your request exceeded model token limit: {limit} (requested: {prompt})", "Moonshot, 2026-03"),
            ("Your request exceeded model token limit", "Moonshot, 2026-03"),
            ("Prompt exceeds max length", "Z.ai, code 1261, 2026-06"),
            ("context window exceeds limit", "MiniMax; pi-mono, 2026-03"),
            ("Range of input length should be [{n}, {limit}]", "DashScope; qwen-code#3652, 2026-04"),
            ("Total tokens of image and text exceed max message tokens", "Volcengine, 2026-10"),
            ("prompt token count of {prompt} exceeds the limit of {limit}", "GitHub Copilot, 2026-03"),
            (
                "Input tokens exceed the configured limit of {limit} tokens. Your messages resulted in {prompt} tokens",
                "OpenAI; LiteLLM, 2026-04",
            ),
            (
                "The estimated number of input and maximum output tokens ({n}) exceeded this model context window limit ({limit})",
                "Cloudflare Workers AI, 2025-06",
            ),
            ("Request body too large for {name} model. Max size: {limit} tokens", "GitHub Models (413), 2025-06"),
            ("the number of input tokens {prompt} cannot exceed the total tokens limit {limit}", "watsonx, 2024-12"),
            ("Invalid 'messages': array too long", "OpenAI (at most 2,048 messages), 2025-06"),
            ("Invalid 'input': array too long", "OpenAI Responses, 2025-06"),
            ("Your input exceeds the context window of this model", "OpenAI Responses; pi-mono, 2026-03"),
        ],
    },
    Group {
        meaning: Meaning::FewerBytes,
        wordings: &[
            ("Request exceeds the maximum", "Anthropic (413), 2026-04"),
            ("Request payload size exceeds the limit", "Gemini (20 MB), 2025-06"),
            ("{path}: A maximum of {n} PDF pages may be provided", "Anthropic, 2026-04"),
            ("A maximum of {n} PDF pages may be provided", "Anthropic, 2026-04"),
            ("Request Entity Too Large", "nginx (413), 2026-11"),
            ("Payload Too Large", "gateways (413), 2026-11"),
            ("{path}: image exceeds {n} MB maximum", "Anthropic, Bedrock; hermes-agent, 2026-06"),
            ("image exceeds {n} MB maximum", "Anthropic, 2026-06"),
        ],
    },
    Group {
        meaning: Meaning::Unreadable,
        wordings: &[
            ("The encrypted content {any} could not be verified", "OpenAI, Azure, Copilot, 2026-09"),
            ("reasoning encrypted_content was not issued to this caller", "opencode#48973, 2026-09"),
            ("Could not decrypt the provided encrypted_content", "xAI; sub2api#4535, 2026-07"),
            ("Could not decode the compaction blob", "xAI; grok2api#688, 2026-07"),
            ("Item with id '{any}' not found", "OpenAI Responses, 2026-09"),
            (
                "Item '{any}' of type 'reasoning' was provided without its required following item",
                "OpenAI Responses, 2026-02",
            ),
            ("The requested item was created under a different Azure OpenAI resource", "Azure, 2026-07"),
            (
                "Invalid 'input[{n}].id': '{any}'. Expected an ID that begins with",
                "OpenAI Responses; pi#10257, 2026-10",
            ),
            ("Invalid 'input[{n}].encrypted_content'", "OpenAI Responses, 2026-09"),
            ("Missing required parameter: 'input[{n}].encrypted_content'", "OpenAI Responses, 2026-09"),
            ("{path}: Invalid `signature` in `thinking` block", "Anthropic, 2026-08"),
            ("Invalid `signature` in `thinking` block", "Anthropic, 2026-08"),
            ("{path}: Invalid `data` in `redacted_thinking` block", "Anthropic, 2026-06"),
            (
                "{path}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot",
                "Anthropic, 2026-05",
            ),
            ("The `thinking` blocks in the latest assistant message cannot be modified", "Anthropic, 2026-07"),
            ("Thought signature is not valid", "Gemini, 2026-09"),
            ("Unable to submit request because Thought signature is not valid", "Vertex AI, 2026-01"),
        ],
    },
    Group {
        meaning: Meaning::SystemFirst,
        wordings: &[
            ("System message must be at the beginning", "Qwen 3.5 to 3.8; llama.cpp#20733, 2026-06"),
            ("messages: Unexpected role \"system\"", "Anthropic, 2026-05"),
            ("Unexpected role: system", "Nemotron-H; axolotl 0.19, 2026-11"),
            ("chat content has invalid message role: system", "MiniMax, 2026-06"),
        ],
    },
    Group {
        meaning: Meaning::SystemFirstNoDeveloper,
        wordings: &[
            (
                "Only user and assistant roles are supported, with the exception of an initial optional system message",
                "Mistral's templates; axolotl 0.19, 2026-11",
            ),
            ("Only user, assistant and tool roles are supported, got", "Mistral's templates, 2026-08"),
        ],
    },
    Group {
        meaning: Meaning::NoSystem,
        wordings: &[
            ("This model doesn't support system messages", "Bedrock Converse, 2025-03"),
            ("System role not supported", "Gemma 1 to 3; axolotl 0.19, 2026-11"),
            ("System role is not supported", "templates, 2026-11"),
            ("Prompting with images is incompatible with system messages", "Llama 3.2; axolotl 0.19, 2026-11"),
            ("Only user and assistant roles are supported", "Mistral 0.1; transformers, 2025-06"),
            ("Unsupported value: '{path}' does not support 'system'", "OpenAI o1-mini, 2024-09"),
            ("{path}: Input tag 'system' found using 'role' does not match", "FastAPI servers, 2026-06"),
        ],
    },
    Group {
        meaning: Meaning::AlternatesAfterSystem,
        wordings: &[
            ("Conversation roles must alternate user/assistant", "Gemma, Llama 2, Mistral; crush#279, 2025-07"),
            ("After the optional system message, conversation roles must alternate user/assistant", "Mistral, 2024-12"),
            (
                "After the (optional) system message(s), user and assistant roles should be alternating",
                "Perplexity; obsidian-clipper#363, 2025-06",
            ),
            ("After the (optional) system message(s), user or tool message", "Perplexity, 2025-12"),
        ],
    },
    Group {
        meaning: Meaning::Alternates,
        wordings: &[
            (
                "After the optional system message, conversation roles must alternate user and assistant roles except",
                "Ministral, Devstral; mistral-vibe#1006, 2026-08",
            ),
            ("A conversation must alternate between user and assistant roles", "Bedrock Converse, 2026-06"),
            ("messages: roles must alternate between \"user\" and \"assistant\"", "Anthropic, 2024-10"),
            ("Please ensure that multiturn requests alternate between user and model", "Gemini, 2026-10"),
            ("Please ensure that function call turn comes immediately after a user turn", "Gemini, 2026-06"),
        ],
    },
    Group {
        meaning: Meaning::Order,
        wordings: &[("Unexpected role '{name}' after role", "Mistral, code 3230; mistral-common, 2026-07")],
    },
    Group {
        meaning: Meaning::BeginsWithUser,
        wordings: &[
            ("A conversation must start with a user message", "Bedrock Converse, 2026-09"),
            ("Conversation must start with a user message", "mistral-common, 2026-07"),
            ("messages: first message must use the \"user\" role", "Anthropic, 2024-10"),
            (
                "Cannot put tools in the first user message when there's no first user message",
                "Llama 3.1 and 3.2; axolotl 0.19, 2026-11",
            ),
            ("No user query found in messages", "Qwen 3.5; lmstudio-bug-tracker#1586, 2026-06"),
        ],
    },
    Group {
        meaning: Meaning::NoDeveloper,
        wordings: &[
            ("{path}: unknown variant `developer`", "DeepSeek, opencode Zen; pi#1048, 2026-02"),
            ("unknown variant `developer`", "gateways, 2026-02"),
            ("developer is not one of [", "DashScope; pi#5117, 2026-05"),
            ("'developer' is not one of [", "DashScope, 2026-05"),
            ("{path}: Input tag 'developer' found using 'role'", "Mistral, Cerebras, 2026-02"),
            ("Input tag 'developer' found using 'role'", "SiliconFlow, 2026-08"),
            ("'{path}' : discriminator property 'role' has invalid value", "Groq, 2026-06"),
            ("Unsupported value: '{path}' does not support 'developer'", "OpenAI o1-mini, 2024-12"),
            ("Role 'developer' is not supported", "Gemini, 2026-09"),
            ("invalid role: developer", "MiniMax, 2026-06"),
            ("Only user, system and assistant roles are supported", "Vicuna's template; axolotl 0.19, 2026-11"),
            ("Unexpected role: developer", "templates; trl 1.16, 2026-11"),
            ("Unknown role: developer", "templates; trl 1.16, 2026-11"),
            ("Unexpected message role", "Qwen's templates, 2026-11"),
        ],
    },
    Group {
        meaning: Meaning::Text,
        wordings: &[
            ("{path}: invalid type: sequence, expected a string", "inferrs; openclaw, 2026-04"),
            ("Invalid type for '{path}': expected a string, but got an array instead", "OpenAI, 2026-11"),
            ("{path}: Input should be a valid string", "FastAPI servers, 2026-11"),
            ("{path} must be a string", "gateways, 2026-08"),
            ("can only concatenate str (not \"list\") to str", "templates in Python, 2026-11"),
            (
                "'{path}' : for 'role:{name}' the following must be satisfied[('{path}' : value must be a string",
                "Groq, 2026-06",
            ),
        ],
    },
    Group {
        meaning: Meaning::Field,
        wordings: &[
            (
                "'{path}' : for 'role:{name}' the following must be satisfied[('{path}' : property '{name}' is unsupported",
                "Groq; hermes-agent#34716, 2026-05",
            ),
            (
                "'{path}' : for 'role':'{name}' the following must be satisfied[('{path}' : property '{name}' is unsupported",
                "Groq, 2026-09",
            ),
            ("'{path}' : property '{name}' is unsupported", "Groq, 2026-09"),
            ("{path}: property '{path}' is unsupported", "Cerebras; kilocode#10375, 2026-05"),
            ("{path}: Extra inputs are not permitted", "Mistral (422), Anthropic; litellm#30835, 2026-06"),
            ("Extra inputs are not permitted, field: '{path}'", "Fireworks; hermes-agent, 2026-06"),
            ("Unknown parameter: '{path}'", "OpenAI, 2026-11"),
        ],
    },
    Group {
        meaning: Meaning::ReasoningRequired,
        wordings: &[
            ("The `reasoning_content` in the thinking mode must be passed back", "DeepSeek; Roo-Code#10171, 2025-12"),
            ("The reasoning_content in the thinking mode must be passed back", "gateways, 2026-09"),
            ("Missing `reasoning_content` field in the assistant message", "DeepSeek, 2025-12"),
            (
                "thinking is enabled but reasoning_content is missing in assistant tool call message",
                "Moonshot; cc-switch, 2026-05",
            ),
        ],
    },
    Group {
        meaning: Meaning::NoReasoning,
        wordings: &[
            (
                "Cannot pass both content and thinking in an assistant message with tool calls",
                "gpt-oss; lmstudio-bug-tracker#842, 2025-08",
            ),
            ("Unexpected content chunk types in assistant message: ['ThinkChunk']", "mistral-common 1.13, 2026-11"),
        ],
    },
    Group {
        meaning: Meaning::LongValue,
        wordings: &[(
            "Invalid '{path}': string too long. Expected a string with maximum length {limit}",
            "OpenAI; vercel/ai#5171, 2025-03",
        )],
    },
    Group {
        meaning: Meaning::PlainIds,
        wordings: &[
            ("{path}: String should match pattern '^[a-zA-Z0-9_-]+$'", "Anthropic, 2026-08"),
            ("Value '{any}' at '{path}' failed to satisfy constraint: Member must", "Bedrock Converse, 2026-06"),
        ],
    },
    Group {
        meaning: Meaning::AlphanumericIds,
        wordings: &[
            ("Tool call id was {any} but must be a-z, A-Z, 0-9, with a length of 9", "Mistral, code 3280, 2026-07"),
            ("Tool call IDs should be alphanumeric strings with length 9", "Mistral's templates, 2026-11"),
        ],
    },
    Group {
        meaning: Meaning::CallsNeedTools,
        wordings: &[
            (
                "The toolConfig field must be defined when using toolUse and toolResult",
                "Bedrock; opencode#10259, 2026-01",
            ),
            ("Requests which include `tool_use` or `tool_result` blocks must define tools", "Anthropic, 2025-03"),
            ("Bedrock doesn't support tool calling without", "LiteLLM, 2026-08"),
            ("Anthropic doesn't support tool calling without", "LiteLLM, 2026-08"),
        ],
    },
    Group {
        meaning: Meaning::SingleCalls,
        wordings: &[("This model only supports single tool-calls at once", "Llama 3.1 and 3.2; axolotl 0.19, 2026-11")],
    },
    Group {
        meaning: Meaning::Images,
        wordings: &[
            ("At most {limit} image(s) may be provided in one", "vLLM, 2026-09"),
            ("Too many images provided. This model supports up to {limit} images", "Groq, 2026-09"),
            ("too many images and documents: {n} + {n} > {limit}", "Anthropic, Bedrock, 2026-07"),
            ("{path}: too many images and documents: {n} + {n} > {limit}", "Anthropic, 2026-07"),
            ("Too many images in request: {n} > {limit}", "opencode Go, 2026-09"),
            ("Too many images in request: {n}, maximum allowed: {limit}", "gateways, 2026-09"),
            ("Too many images in request. Max is {limit}", "gateways, 2026-09"),
            ("Too many images in request. Maximum is {limit}", "gateways, 2026-09"),
            ("Too many images: {n} > {limit}", "gateways, 2026-09"),
            ("a request may include at most {limit} images", "opencode Go, 2026-09"),
            ("The number of images in the request exceeds the maximum allowed ({limit})", "Gemini, 2026-09"),
        ],
    },
    Group {
        meaning: Meaning::ManyPixels,
        wordings: &[(
            "{path}: At least one of the image dimensions exceed max allowed size for many-image requests: {limit} pixels",
            "Anthropic; claude-code#51564, 2026-04",
        )],
    },
    Group {
        meaning: Meaning::Pixels,
        wordings: &[(
            "{path}: At least one of the image dimensions exceed max allowed size: {limit} pixels",
            "Anthropic; hermes-agent, 2026-06",
        )],
    },
    Group {
        meaning: Meaning::NoImages,
        wordings: &[
            ("{path}: unknown variant `image_url`, expected `text`", "DeepSeek; codex#11349, 2026-02"),
            ("unknown variant `image_url`, expected `text`", "gateways, 2026-09"),
            ("image input is not supported", "llama.cpp, 2026-09"),
            ("Unexpected content chunk types in user message: ['ImageURLChunk']", "mistral-common 1.13, 2026-11"),
            ("{name} is not a multimodal model", "vLLM, 2026-08"),
            ("No endpoints found that support image input", "OpenRouter (404), 2026-09"),
            ("Model does not support images", "LM Studio, 2026-09"),
            ("This model does not support image", "Ollama, 2026-09"),
            ("This model does not support vision", "gateways, 2026-06"),
            ("{name} does not support images", "Ollama, 2026-09"),
            ("Invalid content type. image_url is only supported by certain models", "OpenAI, 2026-08"),
            ("This model doesn't support the image content block", "Bedrock Converse, 2026-06"),
            ("this model is missing data required for image input", "Ollama, 2026-08"),
        ],
    },
    Group { meaning: Meaning::NoOtherMedia, wordings: &[("audio input is not supported", "llama.cpp, 2026-09")] },
];
