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


class FeedSilent(Exception):
    """Whether a session has ended is not known: answer 503."""


class Verifier:
    def __init__(self, issuer, audience=None, max_silence=60):
        """While the feed does not answer, tokens are accepted by what it said last, for `max_silence` seconds; after
        that, and if it has never answered, no token is. `math.inf` accepts them however long it is silent."""
        self.issuer, self.audience, self.max_silence = issuer, audience or issuer, max_silence
        self.keys = jwt.PyJWKClient(f"{issuer}/.well-known/jwks.json")
        self.ended = {}
        self.heard = -math.inf
        self.cursor = ""
        self.started = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def verify(self, token):
        """The claims of a valid token. Raises FeedSilent, jwt.PyJWKClientError if the token's key is unknown or cannot
        be fetched, and another jwt.PyJWTError if the token is not valid."""
        if jwt.get_unverified_header(token).get("typ") != "at+jwt":
            raise jwt.InvalidTokenError("not an access token")
        claims = jwt.decode(
            token,
            self.keys.get_signing_key_from_jwt(token).key,
            algorithms=["ES256", "EdDSA", "RS256"],
            issuer=self.issuer,
            audience=self.audience,
            leeway=30,
            options={"require": ["exp", "iat", "sub", "sid"]},
        )
        if self.is_ended(claims["sid"]):
            raise jwt.InvalidTokenError("the session has ended")
        return claims

    def is_ended(self, sid):
        self.started.wait()
        if time.monotonic() - self.heard > self.max_silence:
            raise FeedSilent
        return sid in self.ended

    def _follow(self):
        while True:
            try:
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
            address = f"{self.issuer}/.well-known/ended-sessions{after}"
            with urllib.request.urlopen(address, timeout=ANSWER_WITHIN_SECONDS) as answer:
                feed = json.load(answer)
            for sid in feed["ended"]:
                self.ended.setdefault(sid, now)
            self.cursor, more = feed["next"], feed["more"]
        for sid, learnt in list(self.ended.items()):
            if learnt < now - KEPT_SECONDS:
                del self.ended[sid]
        self.heard = now
