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
	issuer   = "https://login.example.com"
	leeway   = 30 * time.Second
	maxAge   = 10 * time.Minute
	cooldown = 5 * time.Second
)

type Claims struct {
	jwt.RegisteredClaims
	SessionID string `json:"sid"`
	Email     string `json:"email"`
	Name      string `json:"name"`
	Role      string `json:"role"`
}

var (
	client = http.Client{Timeout: 5 * time.Second}
	mutex  sync.Mutex
	keys   map[string]*ecdsa.PublicKey
	loaded time.Time
	tried  time.Time
)

// Verify returns the claims of a valid access token.
func Verify(token string) (*Claims, error) {
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

// keyOf loads the keys again if they are old or the key id is unknown, at most every 5 seconds. While the service
// does not answer, the old keys stay in use.
func keyOf(token *jwt.Token) (interface{}, error) {
	id, _ := token.Header["kid"].(string)
	mutex.Lock()
	defer mutex.Unlock()
	isDue := keys[id] == nil || time.Since(loaded) > maxAge
	if isDue && time.Since(tried) > cooldown {
		tried = time.Now()
		if err := loadKeys(); err != nil && keys[id] == nil {
			return nil, err
		}
	}
	if keys[id] == nil {
		return nil, errors.New("unknown key")
	}
	return keys[id], nil
}

func loadKeys() error {
	response, err := client.Get(issuer + "/.well-known/jwks.json")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New("the keys cannot be loaded: " + response.Status)
	}
	var set struct {
		Keys []struct{ Kid, Crv, X, Y string }
	}
	if err := json.NewDecoder(response.Body).Decode(&set); err != nil {
		return err
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
	keys, loaded = found, time.Now()
	return nil
}
