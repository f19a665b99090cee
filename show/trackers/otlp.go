package trackers

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// otlpServer takes spans in OTLP 1.x over HTTP (https://opentelemetry.io/docs/specs/otlp), as Protocol Buffers.
type otlpServer struct {
	url      *url.URL // may hold a password
	header   http.Header
	timeout  time.Duration
	gzip     bool
	resource []Pair
	client   *http.Client
}

// otlpTimeout is the limit of a request that the specification sets where the environment names none.
const otlpTimeout = 10 * time.Second

// refusedSpans is an answer after which the same spans need not be sent again.
type refusedSpans struct{ text string }

func (r *refusedSpans) Error() string { return r.text }

func checkOTel(getenv func(string) string) error {
	_, err := newOTLPServer(getenv)
	return err
}

// newOTLPServer reads OpenTelemetry's environment (https://opentelemetry.io/docs/specs/otel/protocol/exporter): a
// variable for traces goes before the one for all signals.
func newOTLPServer(getenv func(string) string) (*otlpServer, error) {
	get := func(name string) (text, from string) {
		for _, prefix := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
			if text := strings.TrimSpace(getenv(prefix + name)); text != "" {
				return text, prefix + name
			}
		}
		return "", ""
	}
	s := &otlpServer{header: http.Header{}, timeout: otlpTimeout}
	if protocol, from := get("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return nil, fmt.Errorf("%s is %q, and only http/protobuf is spoken here", from, protocol)
	}
	text, from := get("ENDPOINT")
	u, err := url.Parse(cmp.Or(text, "http://localhost:4318"))
	if err != nil { // the error would quote the address, which may have a password in it
		return nil, fmt.Errorf("%s is no URL, must be that of a server, such as http://127.0.0.1:4318", from)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s is %q, must be the URL of a server, such as http://127.0.0.1:4318", from,
			u.Redacted())
	}
	if from != "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" { // that one is taken as it is
		u = u.JoinPath("v1", "traces")
	}
	s.url = u
	headers, from := get("HEADERS")
	pairs, err := baggage(headers)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	for _, p := range pairs {
		s.header.Set(p.Name, p.Value)
	}
	if text, from := get("TIMEOUT"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s is %q, must be a whole number of milliseconds above 0", from, text)
		}
		s.timeout = time.Duration(n) * time.Millisecond
	}
	switch text, from := get("COMPRESSION"); text {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		return nil, fmt.Errorf("%s is %q, want none or gzip", from, text)
	}
	if s.resource, err = baggage(getenv("OTEL_RESOURCE_ATTRIBUTES")); err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	named := func(p Pair) bool { return p.Name == "service.name" }
	if name := getenv("OTEL_SERVICE_NAME"); name != "" || !slices.ContainsFunc(s.resource, named) {
		s.resource = append(slices.DeleteFunc(s.resource, named), Pair{"service.name", cmp.Or(name, "popri")})
	}
	s.client, err = otlpClient(get)
	return s, err
}

// otlpClient trusts and shows the certificates that the environment names.
func otlpClient(get func(string) (string, string)) (*http.Client, error) {
	config := &tls.Config{}
	if file, from := get("CERTIFICATE"); file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("%s: %s holds no certificate in PEM", from, file)
		}
	}
	certificate, from := get("CLIENT_CERTIFICATE")
	if key, _ := get("CLIENT_KEY"); certificate != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cmp.Or(from, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"), err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	return &http.Client{Transport: transport}, nil
}

// baggage reads "key=value,other=value" with values in the form of URLs, as W3C Baggage. Errors quote no value, which
// may be a secret.
func baggage(text string) (list []Pair, err error) {
	for i, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil || strings.ContainsAny(name, " \r\n\t:") {
			return nil, fmt.Errorf("entry %d is not a name, \"=\" and a value in the form of URLs", i+1)
		}
		list = append(list, Pair{name, value})
	}
	return list, nil
}

// export sends spans. An error that is no refusedSpans may pass.
func (s *otlpServer) export(ctx context.Context, resource message, spans []message) error {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var scope, name, spansOf, all message
	name.text(1, "popri")
	scope.message(1, name)
	for _, one := range spans {
		scope.message(2, one)
	}
	spansOf.message(1, resource)
	spansOf.message(2, scope)
	all.message(1, spansOf)
	body := []byte(all)
	if s.gzip {
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		_, err := w.Write(body)
		if err := errors.Join(err, w.Close()); err != nil {
			return err
		}
		body = zipped.Bytes()
	}
	request, err := http.NewRequestWithContext(ctx, "POST", s.url.String(), bytes.NewReader(body))
	if err != nil {
		return hideAddress(err)
	}
	maps.Copy(request.Header, s.header)
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("User-Agent", "popri")
	if s.gzip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	answer, err := s.client.Do(request)
	switch {
	case err != nil && whole.Err() != nil:
		return fmt.Errorf("%s has not answered before the end", s.name())
	case err != nil:
		return fmt.Errorf("%s: %w", s.name(), hideAddress(err))
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("%s: %w", s.name(), hideAddress(err))
	}
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		if rejected, text := partialSuccess(b); rejected > 0 {
			return &refusedSpans{fmt.Sprintf("%s rejects %d of %d spans: %.200q", s.name(), rejected, len(spans), text)}
		}
		return nil
	case code == 429 || code == 502 || code == 503 || code == 504: // as the specification says
		return fmt.Errorf("%s answers %d", s.name(), code)
	default:
		return &refusedSpans{fmt.Sprintf("%s answers %d", s.name(), code)}
	}
}

// name is the address without credentials.
func (s *otlpServer) name() string {
	u := *s.url
	u.User, u.RawQuery = nil, ""
	return u.String()
}

// partialSuccess reads how many spans an answer rejects, and why. An answer that is none rejects nothing.
func partialSuccess(b []byte) (rejected int64, text string) {
	for field, value := range messageFields(b) {
		if field != 1 {
			continue
		}
		for field, value := range messageFields(value.bytes) {
			switch field {
			case 1:
				rejected = int64(value.number)
			case 2:
				text = string(value.bytes)
			}
		}
	}
	return rejected, text
}

// resource describes the process that makes the spans.
func (t *otel) resource() message {
	list := slices.Clone(t.server.resource)
	for _, p := range t.run.Tags {
		if p.Name == "program" {
			list = append(list, Pair{"service.version", p.Value})
		}
	}
	var m message
	for _, p := range list {
		m.message(1, keyValue(p.Name, p.Value))
	}
	return m
}

// The codes of a span's status, and its kind.
const (
	statusUnset  = 0
	statusError  = 2
	kindInternal = 1
)

// encode is a Span of opentelemetry/proto/trace/v1.
func (s span) encode(trace [16]byte, end time.Time, code int64, text string) (m message) {
	m.message(1, message(trace[:]))
	m.message(2, message(s.id[:]))
	if s.parent != [8]byte{} {
		m.message(4, message(s.parent[:]))
	}
	m.text(5, s.name)
	m.int(6, kindInternal)
	m.fixed(7, uint64(s.begun.UnixNano()))
	m.fixed(8, uint64(max(end.UnixNano(), s.begun.UnixNano())))
	for _, key := range slices.Sorted(maps.Keys(s.attributes)) {
		m.message(9, keyValue(key, s.attributes[key]))
	}
	if code != statusUnset || text != "" {
		var status message
		status.text(2, text)
		status.int(3, code)
		m.message(15, status)
	}
	return m
}

// keyValue is a KeyValue of opentelemetry/proto/common/v1.
func keyValue(key string, value any) (m message) {
	var any message
	switch v := value.(type) {
	case string:
		any.text(1, strings.ToValidUTF8(v, "\uFFFD"))
	case bool:
		n := int64(0)
		if v {
			n = 1
		}
		any.int(2, n)
	case int64:
		any.int(3, v)
	case float64:
		any.double(4, v)
	}
	m.text(1, key)
	m.message(2, any)
	return m
}

// fieldValue is a field's value as it stands in a message.
type fieldValue struct {
	number uint64 // of a varint or a number of fixed size
	bytes  []byte // of a text or a message
}

// messageFields iterates over the fields of a message. It ends where the message is broken.
func messageFields(b []byte) func(yield func(field int, v fieldValue) bool) {
	return func(yield func(int, fieldValue) bool) {
		for len(b) > 0 {
			number, kind, n := protowire.ConsumeTag(b)
			if n < 0 {
				return
			}
			b = b[n:]
			var v fieldValue
			switch kind {
			case protowire.VarintType:
				v.number, n = protowire.ConsumeVarint(b)
			case protowire.Fixed64Type:
				v.number, n = protowire.ConsumeFixed64(b)
			case protowire.Fixed32Type:
				var short uint32
				short, n = protowire.ConsumeFixed32(b)
				v.number = uint64(short)
			case protowire.BytesType:
				v.bytes, n = protowire.ConsumeBytes(b)
			default:
				return
			}
			if n < 0 {
				return
			}
			b = b[n:]
			if !yield(int(number), v) {
				return
			}
		}
	}
}
