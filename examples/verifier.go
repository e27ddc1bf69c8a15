// Verifies access tokens by the published keys. It does not read the feed of ended sessions.
// Version 4 of golang-jwt has the same functions, under github.com/golang-jwt/jwt/v4.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	issuer = "https://login.example.com"
	leeway = 30 * time.Second
	maxAge = 10 * time.Minute
	// Longer than a request may take, so that there is one at a time, whatever key ids tokens name.
	cooldown = 10 * time.Second
)

type Claims struct {
	jwt.RegisteredClaims
	SessionID string   `json:"sid"`
	Email     string   `json:"email"`
	Name      string   `json:"name"`
	Role      string   `json:"role"`
	AMR       []string `json:"amr"` // Has "mfa" after a login with a second factor.
}

var (
	client  = http.Client{Timeout: 5 * time.Second}
	start   sync.Once
	mutex   sync.Mutex // Guards all below. Not held during a request.
	keys    map[string]*ecdsa.PublicKey
	loaded  time.Time
	tried   time.Time
	loading chan struct{} // Closed when the last request has ended.
	failure error
)

// Verify returns the claims of a valid access token.
func Verify(token string) (*Claims, error) {
	start.Do(func() { go follow() })
	claims := &Claims{}
	// The claims are checked below, because version 4 knows no leeway.
	parsed, err := jwt.ParseWithClaims(token, claims, keyOf,
		jwt.WithValidMethods([]string{"ES256"}), jwt.WithoutClaimsValidation())
	switch {
	case err != nil:
		return nil, err
	case parsed.Header["typ"] != "at+jwt":
		return nil, errors.New("not an access token")
	case claims.Issuer != issuer:
		return nil, errors.New("another issuer")
	case len(claims.Audience) != 1 || claims.Audience[0] != issuer:
		return nil, errors.New("another audience")
	case claims.ExpiresAt == nil || time.Now().After(claims.ExpiresAt.Add(leeway)):
		return nil, errors.New("expired")
	case claims.Subject == "":
		return nil, errors.New("no user")
	}
	return claims, nil
}

// follow loads the keys every 10 minutes. While the service does not answer, the last keys stay.
func follow() {
	for range time.Tick(cooldown) {
		mutex.Lock()
		if time.Since(loaded) > maxAge {
			load()
		}
		mutex.Unlock()
	}
}

// keyOf finds the key of a token. Only a token of an unknown key waits for a request.
func keyOf(token *jwt.Token) (interface{}, error) {
	id, _ := token.Header["kid"].(string)
	mutex.Lock()
	defer mutex.Unlock()
	if keys[id] == nil {
		ended := load()
		mutex.Unlock()
		<-ended
		mutex.Lock()
	}
	switch {
	case keys[id] != nil:
		return keys[id], nil
	case failure != nil:
		return nil, failure
	}
	return nil, errors.New("unknown key")
}

// load begins a request, unless it is too early for one, and returns what tells its end.
func load() chan struct{} {
	if time.Since(tried) > cooldown {
		tried, loading = time.Now(), make(chan struct{})
		go func(ended chan struct{}) {
			defer close(ended)
			found, err := fetchKeys()
			mutex.Lock()
			defer mutex.Unlock()
			if failure = err; err == nil {
				keys, loaded = found, time.Now()
			}
		}(loading)
	}
	return loading
}

func fetchKeys() (map[string]*ecdsa.PublicKey, error) {
	response, err := client.Get(issuer + "/.well-known/jwks.json")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New("the keys cannot be loaded: " + response.Status)
	}
	var set struct {
		Keys []struct{ Kid, Crv, X, Y string }
	}
	if err := json.NewDecoder(response.Body).Decode(&set); err != nil {
		return nil, err
	}
	found := map[string]*ecdsa.PublicKey{}
	for _, key := range set.Keys {
		x, errX := base64.RawURLEncoding.DecodeString(key.X)
		y, errY := base64.RawURLEncoding.DecodeString(key.Y)
		if key.Crv != "P-256" || errX != nil || errY != nil {
			continue
		}
		found[key.Kid] = &ecdsa.PublicKey{
			Curve: elliptic.P256(), X: new(big.Int).SetBytes(x), Y: new(big.Int).SetBytes(y),
		}
	}
	if len(found) == 0 {
		return nil, errors.New("the answer has no keys for ES256")
	}
	return found, nil
}
