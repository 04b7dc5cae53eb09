"""Messages of Protobuf's own library, and how they stand in records."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from lakesql.registry.proto_compiler import compile_files


@cache
def message_of(text: str, name: str = "shop.Order") -> Any:
    """The class of a message of a .proto's text."""
    pool = descriptor_pool.DescriptorPool()
    written = compile_files({"m.proto": text}, "m.proto")
    for file in descriptor_pb2.FileDescriptorSet.FromString(written).file:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def framed(id_: int, message: Any, before: bytes = b"\0", size: int = 4) -> bytes:
    """A record: an id of so many bytes, what names the message, and the message or its
    bytes."""
    body = message if isinstance(message, bytes) else message.SerializeToString()
    return b"\0" + id_.to_bytes(size, "big") + before + body
