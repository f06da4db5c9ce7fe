SET NAMES utf8mb4; SET sql_mode='';
-- Every lead byte with a backslash behind it, alone, before a quote, before a backslash; what is no character there is stored empty.
CREATE TABLE tails (id INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(6) CHARACTER SET sjis, c VARCHAR(6) CHARACTER SET cp932, g VARCHAR(6) CHARACTER SET gbk, b VARCHAR(6) CHARACTER SET big5, l VARCHAR(6) CHARACTER SET latin1, r VARCHAR(6) CHARACTER SET cp1251, canary CHAR(4) CHARACTER SET latin1 DEFAULT 'here') CHARSET=latin1;
INSERT INTO tails (s, c, g, b, l, r)
 WITH RECURSIVE h(i) AS (SELECT 129 UNION ALL SELECT i + 1 FROM h WHERE i < 254), e(x) AS (SELECT '5C' UNION ALL SELECT '5C27' UNION ALL SELECT '5C5C' UNION ALL SELECT '7C')
 SELECT b, b, b, b, b, IF(i = 152, 'none', b) FROM (SELECT UNHEX(CONCAT(HEX(i), x)) AS b, i, x FROM h, e) AS all_of_them ORDER BY i, x;
CREATE TABLE tails_beside (id INT PRIMARY KEY, s VARCHAR(6) CHARACTER SET sjis, v VARBINARY(6)) CHARSET=latin1;
INSERT INTO tails_beside SELECT id, s, UNHEX(HEX(l)) FROM tails;
-- What a client that says latin1 for text of utf8 has written, and text of three and four bytes.
CREATE TABLE twice (id INT PRIMARY KEY, l VARCHAR(20) CHARACTER SET latin1, u3 VARCHAR(20) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci, u4 VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, r VARCHAR(20) CHARACTER SET cp1251, v VARBINARY(20)) CHARSET=latin1;
INSERT INTO twice VALUES (1, x'C3A9', x'C3A9', x'C3A9', x'C3E9', x'C3A9'), (2, x'C383C2A9', x'C383C2A9', x'C383C2A9', x'D0AF', x'C383C2A9'), (3, x'E9', x'E282AC', x'F09F92A9', x'FF', x'F09F92A9'),
 (4, x'80', x'EFBFBD', x'F4808080', x'97', x'FF'), (5, x'5C27', x'5C27', x'5C27', x'5C27', x'5C27');
