"""Writes histories into a Redis server with LangChain itself. The argument is the URL of the server."""

import sys

from langchain_community.chat_message_histories import RedisChatMessageHistory
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

CALL = {"name": "weather", "args": {"city": "Paris"}, "id": "call_1"}

first = RedisChatMessageHistory("user-42:support", url=sys.argv[1])
first.add_messages([HumanMessage("Weather in Paris?"), AIMessage("", tool_calls=[CALL])])
first.add_messages([ToolMessage("18 °C", tool_call_id="call_1"), AIMessage("It is warm.")])
RedisChatMessageHistory("user-43", url=sys.argv[1]).add_user_message("Hi")
# It has another beginning of its keys, and would be a wildcard.
RedisChatMessageHistory("user-44", url=sys.argv[1], key_prefix="message*").add_user_message("Hello")
