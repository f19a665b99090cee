package clients

import "testing"

func TestDates(t *testing.T) {
	for s, want := range map[string]string{
		"":                                "",
		"2021-05-22":                      "2021-05-22",
		"20210522":                        "2021-05-22",
		"2021-05":                         "2021-05-01",
		"2021":                            "2021-01-01",
		"2021-05-22 23:15:00 +1100":       "2021-05-22",
		"2021-05-22T23:15:00.123-07:00":   "2021-05-22",
		"2021-05-22T23:15+02":             "2021-05-22",
		"2021-05-22 23:15":                "2021-05-22",
		"2021-05-22 23:15:00 UTC":         "2021-05-22",
		"20210522T231500Z":                "2021-05-22",
		"Sat, 22 May 2021 23:15:00 -0700": "2021-05-22",
		"22 May 2021 23:15 GMT (London)":  "2021-05-22",
		"1627812774":                      "2021-08-01",
		"1627812774.5":                    "2021-08-01",
		"1627812774000":                   "2021-08-01",
		"999999999":                       "2001-09-09",
		"20210522231500":                  "2021-05-22",
		"202105222315":                    "2021-05-22",
		"22/05/2021":                      "no",
		"2021-05-22x":                     "no",
		"20211322":                        "no",
		"12345":                           "no",
		"-1627812774":                     "no",
		"a private text":                  "no",
	} {
		if day, ok := dateOf(s, ""); ok != (want != "no") || ok && day != want {
			t.Errorf("%q is %q, %v, want %q", s, day, ok, want)
		}
	}
	for format, s := range map[string]string{"DD/MM/YYYY": "22/5/2021", "MM/DD/YY": "05/22/21",
		"MON DD, YYYY hh:mm": "May 22, 2021 14:05", "DD MONTH YYYY": "22 May 2021",
		"YYYYMMDDThhmmss": "20210522T140506", "DDMMYYYY": "22052021"} {
		layout, err := dateLayout(format)
		if err != nil {
			t.Fatal(err)
		}
		if day, ok := dateOf(s, layout); !ok || day != "2021-05-22" {
			t.Errorf("%s: %q is %q, %v", format, s, day, ok)
		}
		if day, ok := dateOf("2021-13-45", layout); ok {
			t.Errorf("%s: %q", format, day)
		}
	}
	for _, format := range []string{"%d/%m/%Y", "DD/MM", "yyyy-mm-dd", "YYYY 1"} {
		if layout, err := dateLayout(format); err == nil {
			t.Errorf("%s is %s", format, layout)
		}
	}
}
