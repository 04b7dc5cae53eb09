"""The options of Kafka's client that a profile may set, and which are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lakesql.decode import Node, read_entries, read_option_text
from lakesql.errors import ProjectError, misspelt

LOGIN_MODULES = (
    "org.apache.kafka.common.security.plain.PlainLoginModule",
    "org.apache.kafka.common.security.scram.ScramLoginModule",
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "com.sun.security.auth.module.Krb5LoginModule",
    "software.amazon.msk.auth.iam.IAMLoginModule",
)
"""The classes that `sasl.jaas.config` may name; any other class would run its own code
in this process."""

OWNED: Mapping[str, str] = {
    "bootstrap.servers": "Use the connection's `bootstrap_servers`.",
    "auto.offset.reset": "Use the stream's `start`.",
    "enable.auto.commit": "Leave it out: progress is kept in the table.",
    "group.id": "Each query has a group of its own. The connection's `group_id_prefix` begins its name.",
    "groupIdPrefix": "Use the connection's `group_id_prefix`.",
    "group.instance.id": "Leave it out: each query has a group of its own, and commits nothing to it.",
    "interceptor.classes": "Leave it out: records are read as the broker has them.",
    "key.deserializer": "Leave it out: keys are read as bytes.",
    "value.deserializer": "Use the stream's `format`.",
    "key.serializer": "Leave it out: nothing is written to topics.",
    "value.serializer": "Leave it out: nothing is written to topics.",
}
"""Options that lakesql and Spark set themselves, each with what to do instead."""

SECURITY = (
    "security.protocol",
    "security.providers",
    "sasl.client.callback.handler.class",
    "sasl.jaas.config",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.service.name",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.mechanism",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    "ssl.key.password",
    "ssl.keymanager.algorithm",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""The options by which a client of Kafka 3.9 logs in. A misspelt one is refused here,
as the client would ignore it and connect without it."""

_NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")
_LOGIN_MODULE = re.compile(r"\s*([\w.$]+)\s")
_LOGIN_OPTIONS = re.compile(
    r"""\s*(required|requisite|sufficient|optional)"""
    r"""(\s+[\w.$-]+\s*=\s*("([^"\\\n\r]|\\[^\n\r])*+"|'([^'\\\n\r]|\\[^\n\r])*+'|[\w.$-]+))*+\s*;\s*""",
    re.IGNORECASE,
)


def read_client_options(node: Node) -> dict[str, str]:
    """The options by name. Raises `ProjectError` (`kafka-option`) for each that a
    profile may not set."""
    return read_entries(node, _read_option)


def _read_option(name: str, node: Node) -> str:
    text = read_option_text(node)
    if name.startswith("kafka."):
        raise _refused(
            f"'{name}' has the prefix of Spark's options.",
            f"Write '{name.removeprefix('kafka.')}'.",
        )
    if name in OWNED:
        raise _refused(f"'{name}' is set by lakesql.", OWNED[name])
    if meant := misspelt(name, SECURITY):
        raise _refused(
            f"'{name}' is no option of Kafka's client.", f"Did you mean '{meant}'?"
        )
    if not _NAME.fullmatch(name):
        raise _refused(
            f"'{name}' is no option of Kafka's client.",
            "Its options are words with dots.",
        )
    if name.endswith("sasl.jaas.config"):
        _check_login_module(text)
    return text


def _check_login_module(text: str) -> None:
    """Raise `ProjectError` unless the text begins with an allowed login module and is
    well formed; comments are refused."""
    found = _LOGIN_MODULE.match(text)
    if found is None or found[1] not in LOGIN_MODULES:
        # The text may contain a secret, so only what is certainly a class name is
        # shown.
        shown = (
            f" {found[1]}"
            if found and re.fullmatch(r"(\w+\.)+\w+LoginModule", found[1])
            else ""
        )
        raise _refused(
            f"'sasl.jaas.config' names a login module{shown} that is not allowed.",
            f"Begin with one of {', '.join(LOGIN_MODULES)}, then `required` and its options, and end with `;`.",
        )
    if not _LOGIN_OPTIONS.fullmatch(text, found.end()):
        # Kafka's own error would quote the place of the fault, possibly with a piece of
        # the password.
        raise _refused(
            "'sasl.jaas.config' is not a login module, `required` and its options.",
            'Write each as name="value", with `\\"` for a `"` and `\\\\` for a `\\` in a value, and end with `;`.',
        )


def _refused(what: str, fix: str) -> ProjectError:
    return ProjectError.of("kafka-option", what, fix=fix)
