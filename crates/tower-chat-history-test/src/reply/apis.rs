//! A reply in the formats of Anthropic's Messages API and of OpenAI's Responses API.

use serde_json::{Value, json};
use tower_chat_history_core::Usage;

use super::{ApiFailure, Choice, End, NoReply, Outcome, Reply, Transcript};
use crate::{
    messages::{self, MadeMessage},
    provider::Thought,
    responses::{self, MadeResponse},
};

/// An API of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Messages,
    Responses,
}

impl Reply {
    /// Returns the blocks of the reply.
    pub(crate) fn blocks(&self) -> Result<Vec<messages::Say>, NoReply> {
        Ok(self.first_choice()?.map(Choice::blocks).unwrap_or_default())
    }

    /// Returns the items of the reply.
    pub(crate) fn items(&self) -> Result<Vec<responses::Say>, NoReply> {
        Ok(self.first_choice()?.map(Choice::items).unwrap_or_default())
    }

    fn first_choice(&self) -> Result<Option<&Choice>, NoReply> {
        match &self.outcome {
            Outcome::Each(choice) => Ok(Some(choice)),
            Outcome::Exactly(choices) if choices.len() > 1 => Err(NoReply::several_choices()),
            Outcome::Exactly(choices) => Ok(choices.first()),
            Outcome::Failure(failure) => Err(NoReply::Failure(failure.clone())),
            Outcome::Panic(message) => Err(NoReply::Panic(message.clone())),
        }
    }

    /// Sets the model, the usage and the reason to stop.
    pub(crate) fn finish_message(&self, mut made: MadeMessage) -> MadeMessage {
        if let Some(model) = &self.model {
            made.model.clone_from(model);
        }

        made.usage = self.usage_or(made.usage);
        if let Ok(Some(choice)) = self.first_choice() {
            made.fields.clone_from(&choice.fields);
            made.stop_reason = match choice.finish.as_deref() {
                Some("stop") => "end_turn".into(),
                Some("tool_calls") => "tool_use".into(),
                Some("length") => "max_tokens".into(),
                Some("content_filter") => "refusal".into(),
                Some(reason) => reason.into(),
                None if choice.refusal.is_some() => "refusal".into(),
                None => made.stop_reason,
            };
        }
        made
    }

    /// Sets the model, the usage and the reason why the response is incomplete.
    pub(crate) fn finish_response(&self, mut made: MadeResponse) -> MadeResponse {
        if let Some(model) = &self.model {
            made.model.clone_from(model);
        }
        made.usage = self.usage_or(made.usage);

        let choice = self.first_choice().ok().flatten();
        if let Some(choice) = choice {
            made.fields.clone_from(&choice.fields);
        }

        let finish = choice.and_then(|choice| choice.finish.as_deref());
        made.incomplete = match finish {
            Some("length" | "max_tokens") => Some("max_output_tokens".into()),
            Some("stop" | "tool_calls") | None => None,
            Some(reason) => Some(reason.into()),
        };
        made
    }

    /// Returns the usage that the reply sets. These APIs always report one.
    fn usage_or(&self, derived: Usage) -> Usage {
        self.usage.unwrap_or_else(|| {
            let bytes = self.first_choice().ok().flatten().map_or(4, Choice::bytes);
            Usage::new(derived.input_tokens, bytes.div_ceil(4) as u64)
        })
    }

    /// Returns the number of characters in a delta.
    pub(crate) const fn delta_chars(&self) -> usize {
        self.chunk_chars
    }

    /// Returns the body of a whole reply, unless the connection breaks.
    pub(crate) fn whole(&self, body: String) -> Result<String, NoReply> {
        self.check_whole()?;
        Ok(body)
    }

    /// Returns these events as a stream. Each event is the whole text on the wire.
    pub(crate) fn stream(&self, api: Api, events: Vec<String>) -> Transcript {
        let mut transcript = self.broken(events, End::Closed, |failure, at| failure.event(api, at));
        if let Some((chunks, _)) = &self.passing_error
            && api == Api::Responses
        {
            // The events after the error have been numbered without it.
            for (number, event) in transcript.events.iter_mut().enumerate().skip(chunks + 1) {
                let name = "\"sequence_number\":";
                *event = event.replacen(&format!("{name}{}", number - 1), &format!("{name}{number}"), 1);
            }
        }
        transcript.is_framed = true;
        transcript
    }
}

impl Choice {
    /// Returns the choice as blocks of Anthropic's Messages API. An empty text is no block.
    fn blocks(&self) -> Vec<messages::Say> {
        let thoughts = self.thoughts.iter().map(|thought| match thought {
            Thought::Text(text) => messages::Say::thinking(text),
            Thought::Redacted => messages::Say::Redacted,
        });
        let texts = [&self.text, &self.refusal].into_iter().flatten().filter(|text| !text.is_empty());
        let calls = self.calls.iter().map(|call| messages::Say::call(&call.id, &call.name, call.input()));
        thoughts.chain(texts.map(messages::Say::text)).chain(calls).collect()
    }

    /// Returns the choice as items of OpenAI's Responses API.
    fn items(&self) -> Vec<responses::Say> {
        let thoughts = self.thoughts.iter().map(|thought| match thought {
            Thought::Text(text) => responses::Say::Reasoning(vec![text.clone()]),
            Thought::Redacted => responses::Say::reasoning(),
        });
        let text = self.text.as_ref().map(responses::Say::text);
        let refusal = self.refusal.clone().map(responses::Say::Refusal);
        let calls = self.calls.iter().map(|call| responses::Say::Call {
            kind: if call.custom { responses::CallType::Custom } else { responses::CallType::Function },
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        });
        thoughts.chain(text).chain(refusal).chain(calls).collect()
    }
}

impl super::Call {
    /// Returns the arguments as the input of a block, which is an object. Without arguments, it is empty.
    fn input(&self) -> Value {
        if !self.custom && self.arguments.trim().is_empty() {
            return json!({});
        }
        match serde_json::from_str(&self.arguments) {
            Ok(Value::Object(input)) if !self.custom => Value::Object(input),
            _ => json!({ "input": self.arguments }),
        }
    }
}

impl ApiFailure {
    /// Returns the body in the shape of an API.
    pub(crate) fn json_of(&self, api: Api) -> Value {
        match api {
            Api::Chat | Api::Responses => self.to_json(),
            Api::Messages => self.own_body().cloned().unwrap_or_else(|| {
                let error = json!({ "type": anthropic_type(self.status()), "message": self.message() });
                json!({ "type": "error", "error": error, "request_id": "req_mock" })
            }),
        }
    }

    /// Returns the event that ends a stream. `at` is its number.
    fn event(&self, api: Api, at: usize) -> String {
        let data = match api {
            Api::Chat | Api::Messages => self.json_of(api),
            Api::Responses => {
                let mut data = self.to_json()["error"].clone();
                data["type"] = "error".into();
                data["sequence_number"] = at.into();
                data
            }
        };
        format!("event: error\ndata: {data}\n\n")
    }
}

/// Returns the type of Anthropic's error with this status.
const fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}
