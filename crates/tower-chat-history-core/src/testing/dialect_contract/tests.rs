//! Chat completions keep the contract, and dialects that break a rule are found.

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
            .unknown(r#"{"role":"critic","content":"No."}"#)
    }
}
