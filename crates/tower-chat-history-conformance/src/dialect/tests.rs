//! The built-in dialects keep the contract.

mod chat {
    use tower_chat_history_core::ChatCompletions;

    use crate::{dialect::Samples, dialect_tests};

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

mod anthropic {
    use tower_chat_history_core::AnthropicMessages;

    use crate::{dialect::Samples, dialect_tests};

    dialect_tests! {
        Samples::new(&AnthropicMessages)
            .element(r#"{"role":"system","content":"Be brief."}"#)
            .element(r#"{"role":"system","content":[],"output_config":{"effort":"low"}}"#)
            .element(r#"{"role":"user","content":"What is new?"}"#)
            .element(r#"{"role":"user","content":[{"type":"text","text":"Who?","cache_control":{"type":"ephemeral"}},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]}"#)
            .element(r#"{"role":"user","content":[{"type":"document","title":"T","context":"C","source":{"type":"base64","media_type":"application/pdf","data":"AA=="},"citations":{"enabled":true}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"abc"}},{"type":"document","source":{"type":"content","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","url":"x"}}]}},{"type":"text","text":""}]}"#)
            .element(r#"{"role":"user","content":[{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"a"}]},{"type":"container_upload","file_id":"f"},{"type":"text","text":"And?"}]}"#)
            .element(r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}"#)
            .element(r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"},{"type":"tool_result","tool_use_id":"y","content":[{"type":"text","text":"1"},{"type":"image","source":{"type":"file","file_id":"f"}},{"type":"text","text":"2"}],"is_error":false}]}"#)
            .element(r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1","cache_control":{"type":"ephemeral"}},{"type":"tool_result","tool_use_id":"y","content":[],"is_error":true},{"type":"text","text":"Stop."}]}"#)
            .element(r#"{"role":"user","content":[{"type":"text","text":"Stop."},{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":""},{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"a"}]}]},{"type":"tool_result","content":"no id"}]}"#)
            .element(r#"{"role":"assistant","content":"Nothing."}"#)
            .element(r#"{"role":"assistant","content":[{"type":"text","text":"Nothing.","citations":[{"type":"char_location","cited_text":"a"}]}]}"#)
            .element(r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"Wait."},{"type":"tool_use","id":"x","name":"f","input":{"a":[1.50]}},{"type":"tool_use","id":"y","name":"g","input":{}}]}"#)
            .element(r#"{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"text","text":" "},{"type":"thinking","thinking":"Hm.","signature":""},{"type":"tool_use","id":"x","name":"f","input":{},"caller":{"type":"direct"}}]}"#)
            .element(r#"{"role":"assistant","content":[{"type":"text","text":"Yes."},{"type":"thinking","thinking":"Hm.","signature":"s"}]}"#)
            .element(r#"{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{}},{"type":"text","text":"Yes."}]}"#)
            .element(r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"q"}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","title":"t","url":"u","encrypted_content":"e","page_age":null}]},{"type":"text","text":"Yes."}]}"#)
            .element(r#"{"role":"assistant","content":[{"type":"web_fetch_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"web_fetch_result","url":"u","content":{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AA=="}}}},{"type":"code_execution_tool_result","tool_use_id":"srvtoolu_2","content":{"type":"code_execution_result","stdout":"1"}},{"type":"mcp_tool_use","id":"m","name":"f","server_name":"s","input":{}},{"type":"mcp_tool_result","tool_use_id":"m","content":[{"type":"text","text":"1"}]}]}"#)
            .element(r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"mcp_tool_use","id":"m","name":"g","server_name":"s","input":{}},{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"text","text":"Wait."},{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"tool_use","id":"x","name":"f","input":{}}]}"#)
            .element(r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"server_tool_use","id":"s","name":"web_search","input":{}}]}"#)
            .element(r#"{"role":"assistant","content":[{"type":"web_search_tool_result","tool_use_id":"s","content":[]},{"type":"server_tool_use","id":"s","name":"web_search","input":{}}]}"#)
            .element(r#"{"role":"assistant","content":[{"type":"compaction","content":"So far: nothing.","encrypted_content":"e"},{"type":"text","text":"Yes."}]}"#)
            .element(r#"{"role":"assistant","content":[{"type":"plan","steps":[{}],"signature":"s"},{"type":"later","x":1.50}]}"#)
            .unknown(r#"{"role":"critic","content":"No."}"#)
            .unknown(r#"{"role":"tool","content":[{"type":"tool_result","tool_use_id":"x"}]}"#)
    }
}

mod responses {
    use tower_chat_history_core::OpenAiResponses;

    use crate::{dialect::Samples, dialect_tests};

    dialect_tests! {
        Samples::new(&OpenAiResponses)
            .element(r#"{"role":"user","content":"What is new?"}"#)
            .element(r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"Who?"},{"type":"input_image","image_url":"data:image/png;base64,AA","detail":"low"},{"type":"input_file","filename":"a.pdf","file_data":"AA"}]}"#)
            .element(r#"{"type":"message","role":"developer","content":"Be brief."}"#)
            .element(r#"{"role":"system","content":[{"type":"input_text","text":"Be brief."}]}"#)
            .element(r#"{"type":"message","id":"msg_1","role":"assistant","status":"completed","phase":"commentary","content":[{"type":"output_text","text":"I look.","annotations":[],"logprobs":[]}]}"#)
            .element(r#"{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"refusal","refusal":"No."}]}"#)
            .element(r#"{"type":"message","id":"msg_1","role":"assistant","content":[]}"#)
            .element(r#"{"role":"assistant","content":"Nothing."}"#)
            .element(r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA"}"#)
            .element(r#"{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}],"content":[{"type":"reasoning_text","text":"Hm."}],"status":null}"#)
            .element(r#"{"id":"fc_1","type":"function_call","status":"completed","call_id":"x","name":"look","arguments":"{\"at\":1.50}"}"#)
            .element(r#"{"type":"function_call_output","call_id":"x","output":"1"}"#)
            .element(r#"{"type":"function_call_output","call_id":"x","output":[{"type":"input_text","text":"1"},{"type":"input_text","text":"2"},{"type":"input_image","image_url":"data:image/png;base64,AA"}]}"#)
            .element(r#"{"id":"ctc_1","type":"custom_tool_call","call_id":"x","name":"patch","input":"a"}"#)
            .element(r#"{"type":"custom_tool_call_output","call_id":"x","output":"1"}"#)
            .element(r#"{"id":"tsc_1","type":"tool_search_call","execution":"client","call_id":"x","arguments":{"query":"q"},"status":"completed"}"#)
            .element(r#"{"type":"tool_search_output","execution":"client","call_id":"x","status":"completed","tools":[{"type":"function","name":"f"}]}"#)
            .element(r#"{"id":"tsc_1","type":"tool_search_call","execution":"server","call_id":null,"arguments":{"query":"q"}}"#)
            .element(r#"{"id":"tso_1","type":"tool_search_output","execution":"server","call_id":null,"tools":[]}"#)
            .element(r#"{"id":"lsh_1","type":"local_shell_call","call_id":"x","status":"completed","action":{"type":"exec","command":["ls"],"env":{}}}"#)
            .element(r#"{"type":"local_shell_call_output","call_id":"x","output":"a.txt"}"#)
            .element(r#"{"type":"local_shell_call_output","id":"x","output":"a.txt"}"#)
            .element(r#"{"id":"sh_1","type":"shell_call","call_id":"x","status":"completed","action":{"commands":["ls"],"timeout_ms":1}}"#)
            .element(r#"{"type":"shell_call_output","call_id":"x","max_output_length":9,"output":[{"stdout":"a","stderr":"b","outcome":{"type":"exit","exit_code":0}},{"stdout":"","stderr":"","outcome":{"type":"timeout"}}]}"#)
            .element(r#"{"id":"cu_1","type":"computer_call","call_id":"x","status":"completed","action":{"type":"click","x":1,"y":2},"pending_safety_checks":[]}"#)
            .element(r#"{"type":"computer_call_output","call_id":"x","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,AA"}}"#)
            .element(r#"{"id":"apc_1","type":"apply_patch_call","call_id":"x","status":"completed","operation":{"type":"delete_file","path":"a"}}"#)
            .element(r#"{"type":"apply_patch_call_output","call_id":"x","status":"completed","output":"done"}"#)
            .element(r#"{"id":"mcpr_1","type":"mcp_approval_request","server_label":"s","name":"f","arguments":"{}"}"#)
            .element(r#"{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true,"reason":"ok"}"#)
            .element(r#"{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"q"}}"#)
            .element(r#"{"id":"ig_1","type":"image_generation_call","status":"completed","result":"AA"}"#)
            .element(r#"{"id":"mcp_1","type":"mcp_call","server_label":"s","name":"f","arguments":"{}","output":"1"}"#)
            .element(r#"{"id":"cmp_1","type":"compaction","encrypted_content":"gAAA"}"#)
            .element(r#"{"type":"compaction_trigger"}"#)
            .unknown(r#"{"type":"new_thing","call_id":"x","output":"1"}"#)
            .unknown(r#"{"type":"message","role":"critic","content":"No."}"#)
            .unknown(r#"{"id":"msg_1"}"#)
            .unknown(r#"{"type":"additional_tools","role":"developer","tools":[]}"#)
    }
}
