//! Chat completions keep the contract.

mod chat {
    use crate::{ChatCompletions, dialect_tests, testing::dialect_contract::Samples};

    dialect_tests! {
        Samples::new(&ChatCompletions)
            .element(r#"{"role":"system","content":"Be brief."}"#)
            .element(r#"{"role":"user","name":"Nemo","content":"What is new?","cache_control":{"type":"ephemeral"}}"#)
            .element(r#"{"role":"user","content":[{"type":"text","text":"Who?"},{"type":"image_url","image_url":{"url":"x","detail":"low"}}]}"#)
            .element(r#"{"role":"assistant","content":"Nothing.","refusal":null,"reasoning_content":"Hm."}"#)
            .element(r#"{"role":"assistant","content":null,"refusal":"No.","audio":{"id":"a","transcript":"No."}}"#)
            .element(r#"{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}"#)
            .element(r#"{"role":"assistant","content":"Wait.","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"y","type":"custom","custom":{"name":"g","input":"a"}}]}"#)
            .element(r#"{"role":"tool","tool_call_id":"x","content":"1"}"#)
            .element(r#"{"role":"tool","tool_call_id":"y","content":[{"type":"text","text":"1"},{"type":"text","text":"2"}]}"#)
            // DeepSeek, Gemini, OpenRouter and LiteLLM.
            .element(r#"{"role":"assistant","content":"","reasoning_content":"Hm.","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]}"#)
            .element(r#"{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}},{"id":"y","type":"function","function":{"name":"f","arguments":"{}"}}]}"#)
            .element(r#"{"role":"assistant","content":"Yes.","extra_content":{"google":{"thought_signature":"s","thought":true}}}"#)
            .element(r#"{"role":"assistant","content":"Yes.","reasoning":"Hm.","reasoning_details":[{"type":"reasoning.summary","summary":"Hm.","format":"anthropic-claude-v1","index":0},{"type":"reasoning.text","text":"Hm.","signature":"s","format":"anthropic-claude-v1","index":0}]}"#)
            .element(r#"{"role":"assistant","content":"Yes.","reasoning_details":[{"type":"reasoning.encrypted","data":"s","format":"openai-responses-v1"}]}"#)
            .element(r#"{"role":"assistant","content":"Yes.","reasoning_content":"Hm.","thinking_blocks":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"redacted_thinking","data":"s"}],"provider_specific_fields":{"thinking_blocks":[{"type":"thinking","thinking":"Hm.","signature":"s"}],"citations":null}}"#)
            .element(r#"{"role":"assistant","content":null,"provider_specific_fields":{"reasoningContentBlocks":[{"reasoningText":{"text":"Hm.","signature":"s"}}],"thought_signatures":["s"]},"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}","provider_specific_fields":{"thought_signature":"s"}}}]}"#)
            .unknown(r#"{"role":"critic","content":"No."}"#)
    }
}
