"""Verifies access tokens by the published keys and by the feed of ended sessions: a token is refused within seconds
after its session has ended. The feed is asked every 2 seconds, however many tokens there are.

    verifier = Verifier("https://login.example.com")  # in each process, after a fork
    claims = verifier.verify(token)

Needs PyJWT 2.6 or newer, with cryptography.
"""
import json
import math
import threading
import time
import urllib.error
import urllib.request

import jwt

ASK_EVERY_SECONDS = 2
ANSWER_WITHIN_SECONDS = 5
# Longer than a token is accepted: its hour, and 30 seconds for clocks that differ.
KEPT_SECONDS = 65 * 60
KEYS_MAX_AGE_SECONDS = 10 * 60
# Between two requests for the keys, whatever key ids tokens name.
LOAD_AGAIN_SECONDS = 10
MAX_CHARACTERS = 8192


class FeedSilent(Exception):
    """Whether a session has ended is not known: answer 503."""


class Verifier:
    def __init__(self, issuer, audience=None, max_silence=60, address=None):
        """While the feed does not answer, tokens are accepted by what it said last, for `max_silence` seconds; after
        that, and if it has never answered, no token is. `math.inf` accepts them however long it is silent.
        `address` is where the service is reached, if that is not the issuer."""
        self.issuer, self.audience, self.max_silence = issuer, audience or issuer, max_silence
        self.address = address or issuer
        self.keys, self.loaded, self.failure = {}, -math.inf, None
        self.lock, self.loading, self.tried = threading.Lock(), threading.Thread(), -math.inf
        self.ended = {}
        self.heard = -math.inf
        self.cursor = ""
        self.started = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def verify(self, token):
        """The claims of a valid token. Raises FeedSilent, jwt.PyJWKClientError if the token's key is unknown or cannot
        be loaded, and another jwt.PyJWTError if the token is not valid."""
        try:
            if len(token) > MAX_CHARACTERS:
                raise jwt.InvalidTokenError("too long")
            header = jwt.get_unverified_header(token)
            if header.get("typ") != "at+jwt":
                raise jwt.InvalidTokenError("not an access token")
            key, algorithm = self._find_key(header.get("kid"))
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=self.issuer,
                audience=self.audience,
                leeway=30,
                options={"require": ["exp", "iat", "sub", "sid"]},
            )
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            # PyJWT does not expect everything that a token can contain.
            raise jwt.InvalidTokenError("malformed") from error
        if self.is_ended(claims["sid"]):
            raise jwt.InvalidTokenError("the session has ended")
        return claims

    def is_ended(self, sid):
        self.started.wait()
        if time.monotonic() - self.heard > self.max_silence:
            raise FeedSilent
        return str(sid) in self.ended

    def _find_key(self, kid):
        """Only a token of an unknown key waits for a request."""
        if kid not in self.keys:
            self._load_keys().join(ANSWER_WITHIN_SECONDS)
        try:
            return self.keys[kid]
        except KeyError:
            raise jwt.PyJWKClientError(self.failure or "unknown key") from None

    def _load_keys(self):
        """Begins a request, unless another one is under way or began a moment ago."""
        with self.lock:
            now = time.monotonic()
            if now - self.tried > LOAD_AGAIN_SECONDS and not self.loading.is_alive():
                self.tried = now
                self.loading = threading.Thread(target=self._fetch_keys, daemon=True)
                self.loading.start()
            return self.loading

    def _fetch_keys(self):
        """While the service does not answer, the last keys stay."""
        try:
            keys = {
                key["kid"]: (jwt.PyJWK(key).key, key["alg"])
                for key in self._get("/.well-known/jwks.json")["keys"]
                if key["alg"] in ["ES256", "EdDSA", "RS256"]
            }
            if not keys:
                raise ValueError("the answer has no keys")
            self.keys = keys
            self.loaded, self.failure = time.monotonic(), None
        except Exception as error:
            self.failure = f"the keys cannot be loaded: {error}"

    def _get(self, path):
        deadline = time.monotonic() + ANSWER_WITHIN_SECONDS
        with urllib.request.urlopen(self.address + path, timeout=ANSWER_WITHIN_SECONDS) as answer:
            body = b""
            # That timeout is for each read.
            while part := answer.read1():
                if time.monotonic() > deadline:
                    raise TimeoutError
                body += part
        return json.loads(body)

    def _follow(self):
        while True:
            try:
                if time.monotonic() - self.loaded > KEYS_MAX_AGE_SECONDS:
                    self._load_keys()
                self._ask()
            except urllib.error.HTTPError as error:
                # The service does not know the cursor: the next request asks for everything.
                if error.code == 400:
                    self.cursor = ""
            except Exception:  # No answer, or none that can be read: it is asked again in 2 seconds.
                pass
            self.started.set()
            time.sleep(ASK_EVERY_SECONDS)

    def _ask(self):
        """Reads all pages: a token is accepted only by a list that is complete."""
        now, more = time.monotonic(), True
        while more:
            after = f"?after={self.cursor}" if self.cursor else ""
            feed = self._get(f"/.well-known/ended-sessions{after}")
            for sid in feed["ended"]:
                self.ended.setdefault(sid, now)
            self.cursor, more = feed["next"], feed["more"]
        for sid, learnt in list(self.ended.items()):
            if learnt < now - KEPT_SECONDS:
                del self.ended[sid]
        self.heard = now
