//! The rows of the table.
//!
//! The threads are public issues and pull requests, and *docs* are the provider's own. Rules that were only seen in one
//! report are not in the table: a conversation learns them from a refusal.

use tower_chat_history_core::{CallIdForm, Compat, MediaCompat, ReasoningField, SystemMessages};

use super::ReaderRow;

const ALL: Compat = Compat::new();

/// A row of a service: its names, its hosts, what it accepts, and the source.
type Service = (&'static [&'static str], &'static [&'static str], Compat, &'static str, &'static str);

/// A row of a chat template: its name, its models, what it accepts, and the source.
type Template = (&'static str, &'static [&'static str], Compat, &'static str, &'static str);

pub(super) fn rows() -> Vec<ReaderRow> {
    let mut rows = Vec::new();
    for (is_hosted, services) in [(true, hosted()), (false, servers())] {
        for (names, hosts, compat, source, month) in services {
            let name = names.first().copied().unwrap_or_default();
            let row = ReaderRow { hosted: is_hosted, ..ReaderRow::new(name, compat).source(source, month) };
            let row = names.iter().fold(row, |row, name| row.provider(*name));
            rows.push(hosts.iter().fold(row, |row, host| row.host(*host)));
        }
    }
    let behind_litellm = ALL.calls_need_tools();
    let row = ReaderRow::new("litellm-claude", behind_litellm).source("nanobot#3758, opencode#10259", "2026-11");
    rows.push(row.provider("litellm").model("claude"));
    for (name, models, compat, source, month) in templates() {
        let row = ReaderRow::new(name, compat).source(source, month);
        rows.push(models.iter().fold(row, |row, model| row.model(*model)));
    }
    rows
}

/// Services with rules of their own.
fn hosted() -> Vec<Service> {
    let system_only = ALL.no_developer();
    let with_reasoning = system_only.reasoning(ReasoningField::RequiredOfOthers);
    vec![
        (
            &["openai"],
            &["api.openai.com"],
            ALL.call_ids(CallIdForm::AtMost64),
            "vercel/ai#5171, jin-bo/agentao#321",
            "2026-11",
        ),
        (
            &["azure.ai.openai", "azure"],
            &["openai.azure.com"],
            ALL.call_ids(CallIdForm::AtMost64),
            "as OpenAI: vercel/ai#5171",
            "2026-11",
        ),
        (
            &["anthropic"],
            &["api.anthropic.com"],
            ALL.call_ids(CallIdForm::Plain64).media(MediaCompat::new().images(100).pixels(2_000, 21).bytes(32 << 20)),
            "Kiro#8884, claude-code#51564, pi#401, docs: vision",
            "2026-11",
        ),
        (
            &["groq"],
            &["api.groq.com"],
            ALL.plain_fields().media(MediaCompat::new().images(5).bytes(4 << 20)),
            "hermes-agent#34716, freellmapi#1070, jan#8136, docs: vision",
            "2026-11",
        ),
        (
            &["cerebras"],
            &["api.cerebras.ai"],
            system_only.plain_fields(),
            "kilocode#10375, vercel/ai#15042, qwen-code#11045",
            "2026-09",
        ),
        (
            &["mistral_ai", "mistral", "mistralai"],
            &["api.mistral.ai", "codestral.mistral.ai"],
            system_only.plain_fields().call_ids(CallIdForm::Alphanumeric9).media(MediaCompat::new().images(8)),
            "crush#1590, litellm#30835, OpenMinis#87",
            "2026-06",
        ),
        (
            &["deepseek"],
            &["api.deepseek.com"],
            with_reasoning.media(MediaCompat::new().images(0).only_images()),
            "Roo-Code#10171, pawwork#250, cc-switch#3575, pi#1048",
            "2026-11",
        ),
        (
            &["moonshot_ai", "moonshot", "moonshotai", "kimi"],
            &["api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"],
            with_reasoning,
            "Roo-Code#10171, docs: thinking with tools",
            "2026-11",
        ),
        (&["x_ai", "xai"], &["api.x.ai"], system_only, "pi's list of servers without `developer`", "2026-03"),
        (
            &["perplexity"],
            &["api.perplexity.ai"],
            system_only.system(SystemMessages::First).alternates().begins_with_user(),
            "semantic-kernel#10281, raft#16",
            "2026-11",
        ),
        (
            &["gcp.gemini", "gemini", "google", "gcp.gen_ai"],
            &["generativelanguage.googleapis.com"],
            ALL,
            "docs: OpenAI compatibility",
            "2026-11",
        ),
        (&["gcp.vertex_ai", "vertex_ai"], &["aiplatform.googleapis.com"], ALL, "docs: OpenAI compatibility", "2026-11"),
        (
            &["bedrock_converse"],
            &[],
            system_only
                .alternates()
                .begins_with_user()
                .calls_need_tools()
                .call_ids(CallIdForm::Plain64)
                .media(MediaCompat::new().images(20)),
            "bedrock-access-gateway#239 and #258, langchain-aws#591, pydantic-ai#6255",
            "2026-11",
        ),
        (
            &["dashscope", "alibaba_cloud"],
            &["dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "maas.aliyuncs.com"],
            system_only,
            "pi#5117: no `developer`",
            "2026-11",
        ),
        (
            &["minimax"],
            &["api.minimax.io", "api.minimaxi.com", "api.minimax.chat"],
            system_only.system(SystemMessages::First),
            "reports of `invalid role: developer (2013)`, as pi#1048",
            "2026-11",
        ),
        (
            &["zai", "z.ai", "zhipu"],
            &["api.z.ai", "open.bigmodel.cn"],
            system_only,
            "pi's list of servers without `developer`",
            "2026-03",
        ),
        (
            &["siliconflow"],
            &["api.siliconflow.cn", "api.siliconflow.com"],
            system_only,
            "reports of code 20015 for `developer`, as pi#1048",
            "2026-11",
        ),
    ]
}

/// Services and servers on which the chat template of the model decides, or the provider behind them.
fn servers() -> Vec<Service> {
    let system_only = ALL.no_developer();
    vec![
        (&["openrouter"], &["openrouter.ai"], ALL, "docs: it calls the providers behind it", "2026-11"),
        (&["litellm"], &[], ALL, "docs: it calls the providers behind it", "2026-11"),
        (&["fireworks"], &["api.fireworks.ai"], ALL.plain_fields(), "litellm's request for Fireworks", "2026-11"),
        (&["together"], &["api.together.xyz", "api.together.ai"], ALL, "docs: chat templates", "2026-11"),
        (&["chutes"], &["llm.chutes.ai"], system_only, "pi's list of servers without `developer`", "2026-03"),
        (&["vllm"], &[], system_only, "vllm#41114, pi#1048", "2026-11"),
        (&["sglang"], &[], system_only, "pydantic-ai-harness#679, pi#1048", "2026-11"),
        (&["llama.cpp", "llama_cpp"], &[], system_only, "zerostack#93, pi#1048", "2026-11"),
    ]
}

/// Chat templates. Their rules were also measured with the templates of trl 1.16 and axolotl 0.19.
fn templates() -> Vec<Template> {
    let system_only = ALL.no_developer();
    let alternating = system_only.alternates().begins_with_user();
    let of_mistral = alternating.system(SystemMessages::First).call_ids(CallIdForm::Alphanumeric9);
    vec![
        (
            "qwen",
            &["qwen3.5", "qwen3.6", "qwen3.8", "ornith"],
            system_only.system(SystemMessages::First),
            "pydantic-ai-harness#679, zerostack#93, vllm#41114",
            "2026-11",
        ),
        (
            "gemma",
            &["gemma-2b", "gemma-7b", "gemma-1.1", "gemma-2", "gemma-3", "gemma-3n", "gemma2", "gemma3", "gemma3n"],
            alternating.system(SystemMessages::Never),
            "the templates of trl and axolotl: `System role not supported`",
            "2026-11",
        ),
        (
            "mistral-templates",
            &["mistral-7b", "mixtral", "ministral", "mistral-small", "mistral-nemo", "mathstral"],
            of_mistral,
            "the templates of trl and axolotl, crush#279, theia#17104",
            "2026-11",
        ),
        ("mistral-agents", &["devstral", "magistral"], of_mistral, "mistral-vibe#1006, theia#17104", "2026-08"),
        (
            "llama-2",
            &["llama-2", "llama2"],
            alternating.system(SystemMessages::First),
            "the templates of trl and axolotl, semantic-kernel#10281",
            "2026-11",
        ),
        (
            "llama-3.1",
            &["llama-3.1", "llama-3.2", "meta-llama-3.1", "meta-llama-3.2", "llama3.1", "llama3.2"],
            system_only.single_calls(),
            "the templates of trl and axolotl: `This model only supports single tool-calls at once!`",
            "2026-11",
        ),
        (
            "minimax-m2",
            &["minimax-m2"],
            system_only.system(SystemMessages::First),
            "vllm#41114: the same words as Qwen's",
            "2026-11",
        ),
    ]
}
