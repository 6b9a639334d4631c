"""Writes conversations with the libraries themselves, into files of the current folder."""

import asyncio
import json
import pathlib

from agents import SQLiteSession
from langchain_community.chat_message_histories import RedisChatMessageHistory, SQLChatMessageHistory
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

CALL = {"name": "weather", "args": {"city": "Paris"}, "id": "call_1"}
MADE = {"model_name": "gpt-4o", "finish_reason": "tool_calls"}
USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
MESSAGES = [
    HumanMessage("Weather in Paris?", name="nemo"),
    AIMessage("", tool_calls=[CALL], response_metadata=MADE, usage_metadata=USAGE),
    ToolMessage("18 °C", tool_call_id="call_1"),
    AIMessage([{"type": "text", "text": "It is "}, {"type": "text", "text": "warm."}]),
    HumanMessage([{"type": "text", "text": "look"}, IMAGE]),
    AIMessage("A boat."),
]


def new(name):
    for suffix in ("", "-wal", "-shm"):
        pathlib.Path(name + suffix).unlink(missing_ok=True)
    return name


def langchain_sql():
    connection = "sqlite:///" + new("langchain.db")
    first = SQLChatMessageHistory(session_id="user-42/support", connection=connection)
    other = SQLChatMessageHistory(session_id="other", connection=connection)
    first.add_messages([SystemMessage("be nice"), *MESSAGES[:3]])
    other.add_messages([HumanMessage("Hi"), AIMessage("Hello")])
    first.add_messages(MESSAGES[3:])


class Redis:
    """The commands that the history uses."""

    def __init__(self):
        self.values = []

    def lpush(self, _, value):
        self.values.insert(0, value)


def langchain_redis():
    history = object.__new__(RedisChatMessageHistory)
    history.redis_client, history.ttl = Redis(), None
    history.session_id, history.key_prefix = "user-42", "message_store:"
    for message in MESSAGES:
        history.add_message(message)
    line = {"key": history.key, "values": history.redis_client.values}
    pathlib.Path("redis.jsonl").write_text(json.dumps(line) + "\n")


def langgraph():
    def reply(state):
        return {"messages": MESSAGES[1:4] if len(state["messages"]) == 2 else MESSAGES[5:]}

    graph = StateGraph(MessagesState)
    graph.add_node("reply", reply)
    graph.add_edge(START, "reply")
    with SqliteSaver.from_conn_string(new("langgraph.db")) as saver:
        app = graph.compile(checkpointer=saver)
        for messages in ([SystemMessage("be nice"), MESSAGES[0]], [MESSAGES[4]]):
            app.invoke({"messages": messages}, {"configurable": {"thread_id": "t/1"}})
        app.invoke({"messages": [HumanMessage("Hi")]}, {"configurable": {"thread_id": "t/2"}})


async def agents():
    new("agents.db")
    text = {"type": "output_text", "text": "It is warm.", "annotations": []}
    reply = {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [text]}
    call = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}", "id": "fc_1"}
    first, other = SQLiteSession("s-1", "agents.db"), SQLiteSession("s-2", "agents.db")
    await first.add_items([{"role": "user", "content": "Weather?"}, call])
    await other.add_items([{"role": "user", "content": "Hi"}])
    await first.add_items([{"type": "function_call_output", "call_id": "c1", "output": "18"}, reply])


langchain_sql()
langchain_redis()
langgraph()
asyncio.run(agents())
