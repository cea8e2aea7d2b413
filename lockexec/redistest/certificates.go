package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

func (s *Server) serverCertFile() string { return filepath.Join(s.dir, "server.crt") }
func (s *Server) serverKeyFile() string  { return filepath.Join(s.dir, "server.key") }

// certificates returns the server that has the files.
func (s *Server) certificates() *Server {
	if s.conf.tlsOf != nil {
		return s.conf.tlsOf
	}
	return s
}

// makeCertificates writes a new authority's certificate and, signed by it, one for the server and one for clients. The
// authority's key is forgotten.
func (s *Server) makeCertificates() error {
	if other := s.conf.tlsOf; other != nil {
		s.CAFile, s.CertFile, s.KeyFile = other.CAFile, other.CertFile, other.KeyFile
		return nil
	}
	s.CAFile = filepath.Join(s.dir, "ca.crt")
	s.CertFile = filepath.Join(s.dir, "client.crt")
	s.KeyFile = filepath.Join(s.dir, "client.key")

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := certificate("redistest CA")
	ca.IsCA = true
	ca.BasicConstraintsValid = true
	ca.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		return err
	}
	if err := writePEM(s.CAFile, "CERTIFICATE", der); err != nil {
		return err
	}

	server := certificate("redistest server")
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.DNSNames = []string{"localhost"}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	if err := writePair(s.serverCertFile(), s.serverKeyFile(), server, ca, key); err != nil {
		return err
	}
	client := certificate("redistest client")
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return writePair(s.CertFile, s.KeyFile, client, ca, key)
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

// writePair writes a certificate signed by ca, and its new key.
func writePair(certFile, keyFile string, cert, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, ca, key.Public(), caKey)
	if err != nil {
		return err
	}
	if err := writePEM(certFile, "CERTIFICATE", der); err != nil {
		return err
	}
	if der, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		return err
	}
	return writePEM(keyFile, "PRIVATE KEY", der)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
