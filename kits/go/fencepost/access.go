package fencepost

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Access is what the servers ask of a client; what they do not ask for is empty.
type Access struct {
	User     string    `json:"user"`
	Password string    `json:"password"`
	TLS      *TLSFiles `json:"tls"` // nil: the servers speak no TLS
}

// TLSFiles are the paths of files in PEM: the authorities that the client trusts (empty: those of the system), its own
// certificate, and the key of that.
type TLSFiles struct {
	CA          string `json:"ca"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// String leaves the password out: what a client prints is kept.
func (a Access) String() string { return fmt.Sprintf("user %s, TLS %v", a.User, a.TLS != nil) }

// TLSConfig reads these files, for connections to a server whose certificate has this name (Server.TLSName). It returns
// nil if the servers speak no TLS.
func (a Access) TLSConfig(name string) (*tls.Config, error) {
	if a.TLS == nil {
		return nil, nil
	}
	config := &tls.Config{ServerName: name}
	if a.TLS.CA != "" {
		pem, err := os.ReadFile(a.TLS.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate in PEM", a.TLS.CA)
		}
	}
	if a.TLS.Certificate != "" {
		own, err := tls.LoadX509KeyPair(a.TLS.Certificate, a.TLS.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}
