"""Events of object storage, as those that send them document them: which objects have
come."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakesql.source.object_events import CreatedObject, read_event
from tests.cases import each_of

S3 = {
    "Records": [
        {
            "eventVersion": "2.1",
            "eventSource": "aws:s3",
            "awsRegion": "us-west-2",
            "eventTime": "1970-01-01T00:00:00.000Z",
            "eventName": "ObjectCreated:Put",
            "userIdentity": {"principalId": "AIDAJDPLRKLG7UEXAMPLE"},
            "requestParameters": {"sourceIPAddress": "127.0.0.1"},
            "responseElements": {"x-amz-request-id": "C3D13FE58DE4C810"},
            "s3": {
                "s3SchemaVersion": "1.0",
                "configurationId": "testConfigRule",
                "bucket": {
                    "name": "lake",
                    "ownerIdentity": {"principalId": "A3"},
                    "arn": "arn:aws:s3:::lake",
                },
                "object": {
                    "key": "in/my+file%2B%C3%BC.json",
                    "size": 1024,
                    "eTag": "d4",
                    "sequencer": "0055AED6",
                },
            },
        }
    ]
}
MINIO = {
    "EventName": "s3:ObjectCreated:CompleteMultipartUpload",
    "Key": "lake/in/my file+ü.json",
    "Records": [
        {
            "eventVersion": "2.0",
            "eventSource": "minio:s3",
            "awsRegion": "",
            "eventTime": "2026-03-01T08:05:00.123Z",
            "eventName": "s3:ObjectCreated:CompleteMultipartUpload",
            "userIdentity": {"principalId": "minio"},
            "requestParameters": {
                "principalId": "minio",
                "region": "",
                "sourceIPAddress": "127.0.0.1",
            },
            "responseElements": {"x-minio-origin-endpoint": "http://127.0.0.1:9000"},
            "s3": {
                "s3SchemaVersion": "1.0",
                "configurationId": "Config",
                "bucket": {
                    "name": "lake",
                    "ownerIdentity": {"principalId": "minio"},
                    "arn": "arn:aws:s3:::lake",
                },
                "object": {
                    "key": "in%2Fmy+file%2B%C3%BC.json",
                    "size": 1024,
                    "eTag": "d4",
                    "contentType": "application/json",
                    "sequencer": "1589B6D1D7A0E8F5",
                },
            },
            "source": {
                "host": "127.0.0.1",
                "port": "",
                "userAgent": "MinIO (linux; amd64) mc",
            },
        }
    ],
}
CEPH = {
    "Records": [
        {
            "eventVersion": "2.1",
            "eventSource": "ceph:s3",
            "awsRegion": "us-east-1",
            "eventTime": "2019-11-22T13:47:35.124724Z",
            "eventName": "ObjectCreated:Put",
            "userIdentity": {"principalId": "tester"},
            "requestParameters": {"sourceIPAddress": ""},
            "responseElements": {
                "x-amz-request-id": "503a4c37-85eb-47cd-8681-2817e80b4281.5330.903595"
            },
            "s3": {
                "s3SchemaVersion": "1.0",
                "configurationId": "mynotif1",
                "bucket": {
                    "name": "lake",
                    "arn": "arn:aws:s3:us-east-1::lake",
                    "id": "503a4c37",
                },
                "object": {
                    "key": "in/my file+ü.json",
                    "size": "1024",
                    "eTag": "37b51d194a7513e45b56f6524f2d51f2",
                    "versionId": "",
                    "sequencer": "F7E6D75DC742D108",
                    "metadata": [],
                    "tags": [],
                },
            },
            "eventId": "",
            "opaqueData": "me@example.com",
        }
    ]
}
EVENT_BRIDGE = {
    "version": "0",
    "id": "17793124-05d4-b198-2fde-7ededc63b103",
    "detail-type": "Object Created",
    "source": "aws.s3",
    "account": "111122223333",
    "time": "2021-11-12T00:00:00Z",
    "region": "ca-central-1",
    "resources": ["arn:aws:s3:::lake"],
    "detail": {
        "version": "0",
        "bucket": {"name": "lake"},
        "object": {
            "key": "in/my file+ü.json",
            "size": 1024,
            "etag": "b1946ac9",
            "sequencer": "617f08299329d189",
        },
        "request-id": "N4N7GDK58NMKJ12R",
        "requester": "123456789012",
        "source-ip-address": "1.2.3.4",
        "reason": "PutObject",
    },
}
SNS = {
    "Type": "Notification",
    "MessageId": "1",
    "TopicArn": "arn:aws:sns:x",
    "Message": json.dumps(S3),
}

MY_FILE = CreatedObject("lake", "in/my file+ü.json", 1024)


@pytest.mark.parametrize(
    "event",
    [S3, MINIO, CEPH, EVENT_BRIDGE, SNS],
    ids=["s3", "minio", "ceph", "eventbridge", "sns"],
)
def test_each_form_names_the_object(event: Any) -> None:
    assert read_event(None, json.dumps(event).encode()) == [MY_FILE]
    assert read_event(
        b"lake/in/my file.json", json.dumps(event, ensure_ascii=False).encode()
    ) == [MY_FILE]


def renamed(event: Any, name: str) -> Any:
    return {
        **event,
        "Records": [{**record, "eventName": name} for record in event["Records"]],
    }


@each_of(
    "event",
    [
        renamed(S3, "ObjectRemoved:Delete"),
        renamed(MINIO, "s3:ObjectRemoved:DeleteMarkerCreated"),
        renamed(CEPH, "ObjectLifecycle:Expiration:Current"),
        {**EVENT_BRIDGE, "detail-type": "Object Deleted"},
        {
            "Service": "Amazon S3",
            "Event": "s3:TestEvent",
            "Time": "2014-10-13T15:57:02.089Z",
            "Bucket": "lake",
        },
        {"Records": []},
    ],
)
def test_other_events_name_none(event: Any) -> None:
    assert read_event(None, json.dumps(event).encode()) == []


def test_several_records_are_several_objects() -> None:
    records = [
        *S3["Records"],
        *renamed(CEPH, "ObjectRemoved:Delete")["Records"],
        *CEPH["Records"],
    ]
    assert read_event(None, json.dumps({"Records": records}).encode()) == [
        MY_FILE,
        MY_FILE,
    ]


@each_of(
    "value",
    [
        None,
        b"",
        b"hello",
        b"[1]",
        b"{",
        b'{"a": 1}',
        b'{"Records": [1]}',
        b'{"Records": [{"eventName": "ObjectCreated:Put"}]}',
        b'{"detail-type": "Object Created"}',
        b'{"Type": "Notification", "Message": "x"}',
        json.dumps(S3).encode()[:-9],
        b"\xff\xfe{}",
    ],
)
def test_what_is_no_event_is_refused(value: bytes | None) -> None:
    with pytest.raises(ValueError):
        read_event(b"key", value)


def field(number: int, value: bytes | int) -> bytes:
    """A field of Protobuf."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def test_an_event_of_the_filer_of_seaweedfs_names_the_object() -> None:
    path = "/buckets/lake/in/my file+ü.json".encode()
    entry = (
        field(1, "my file+ü.json".encode())
        + field(3, field(3, 7))
        + field(4, field(1, 9))
    )
    assert read_event(path, field(2, entry) + field(3, 1)) == [
        CreatedObject("lake", "in/my file+ü.json")
    ]
    moved = field(1, field(1, b"old")) + field(2, entry) + field(4, b"/buckets/lake/in")
    assert read_event(b"/buckets/lake/tmp/old", moved) == [
        CreatedObject("lake", "in/my file+ü.json")
    ]
    assert read_event(path, field(1, entry)) == [], "it was deleted"
    assert (
        read_event(b"/buckets/lake/in", field(2, field(1, b"in") + field(2, 1))) == []
    ), "it is a folder"
    assert read_event(b"/etc/x", field(2, entry)) == [], "it is in no bucket"
    for wrong in (field(2, entry)[:-1], b"\x07", b"\x12", b"hello"):
        with pytest.raises(ValueError):
            read_event(path, wrong)
