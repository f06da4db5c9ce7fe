-- windows
CREATE TABLE w (a INT, b TEXT);
INSERT INTO w VALUES (1, 'x'),
(2, 'two lines'), (3, 'esc\r\n');
INSERT INTO w VALUES (4, 'y');
